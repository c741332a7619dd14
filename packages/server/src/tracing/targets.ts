import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import { AppError } from '@platform/kit';
import type { Config } from '../config/options.ts';

/** A receiver of traces. Without a URL, the OTEL_EXPORTER_OTLP_* variables name it. */
export interface TraceTarget {
  url?: string;
  headers?: Record<string, string>;
}

export type TraceConfig = Pick<Config, 'trace' | 'traceLogs' | 'traceHoneycombApiKey'>;

/**
 * The receivers of traces. None of them if tracing is off.
 * @throws AppError `invalid` for a protocol that this server does not speak
 */
export function traceTargets(config: TraceConfig, env: NodeJS.ProcessEnv): TraceTarget[] {
  const targets: TraceTarget[] = [];
  if (config.trace) {
    const name = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'].find((one) => env[one]);
    if (name !== undefined && env[name] !== 'http/protobuf') {
      throw new AppError(
        'invalid',
        `Invalid ${name} "${env[name]}": use http/protobuf, which collectors receive on port 4318 by default.`,
      );
    }
    targets.push({});
  }
  if (config.traceHoneycombApiKey !== '') {
    targets.push({
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
