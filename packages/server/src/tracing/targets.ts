import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import { AppError } from '@ropewalk/kit';
import type { Config } from '../config/options.ts';

/** A receiver of traces. Without a URL, the OTEL_EXPORTER_OTLP_* variables name it. */
export interface TraceTarget {
  protocol: 'http/protobuf' | 'grpc';
  url?: string;
  headers?: Record<string, string>;
}

export type TraceConfig = Pick<Config, 'trace' | 'traceLogs' | 'traceHoneycombApiKey'>;

/** The port on which collectors receive gRPC, which is all that upstream's server speaks. */
const GRPC_PORT = '4317';

/** The protocol that the standard variables name, or the endpoint's port. */
function protocolIn(env: NodeJS.ProcessEnv): TraceTarget['protocol'] {
  const first = (...names: string[]) => names.find((name) => env[name]);
  const name = first('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL');
  if (name !== undefined) {
    const protocol = env[name];
    if (protocol === 'grpc' || protocol === 'http/protobuf') return protocol;
    throw new AppError('invalid', `Invalid ${name} "${protocol}": use http/protobuf or grpc.`);
  }
  const endpoint = env[first('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT') ?? ''] ?? '';
  return URL.parse(endpoint)?.port === GRPC_PORT ? 'grpc' : 'http/protobuf';
}

/**
 * The receivers of traces. None of them if tracing is off.
 * @throws AppError `invalid` for a protocol that this server does not speak
 */
export function traceTargets(config: TraceConfig, env: NodeJS.ProcessEnv): TraceTarget[] {
  const targets: TraceTarget[] = [];
  if (config.trace) targets.push({ protocol: protocolIn(env) });
  if (config.traceHoneycombApiKey !== '') {
    targets.push({
      protocol: 'http/protobuf',
      url: 'https://api.honeycomb.io/v1/traces',
      headers: { 'x-honeycomb-team': config.traceHoneycombApiKey },
    });
  }
  return targets;
}

/**
 * Decides which traces are recorded, by the standard variables. By default all are, unless the client's tracer decided
 * against one.
 * @throws AppError `invalid` for an unknown sampler or ratio
 */
export function traceSampler(env: NodeJS.ProcessEnv): Sampler {
  const name = env['OTEL_TRACES_SAMPLER'] || 'parentbased_always_on';
  const [, parentBased, kind] = /^(parentbased_)?(.*)$/.exec(name)!;
  const root = ((): Sampler => {
    switch (kind) {
      case 'always_on':
        return new AlwaysOnSampler();
      case 'always_off':
        return new AlwaysOffSampler();
      case 'traceidratio': {
        const ratio = Number(env['OTEL_TRACES_SAMPLER_ARG'] || 1);
        if (ratio >= 0 && ratio <= 1) return new TraceIdRatioBasedSampler(ratio);
        throw new AppError('invalid', 'Invalid OTEL_TRACES_SAMPLER_ARG: use a number from 0 to 1.');
      }
      default:
        throw new AppError(
          'invalid',
          `Invalid OTEL_TRACES_SAMPLER "${name}": use always_on, always_off or traceidratio, also after parentbased_.`,
        );
    }
  })();
  return parentBased ? new ParentBasedSampler({ root }) : root;
}
