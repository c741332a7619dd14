/**
 * Exports traces of requests and jobs with OpenTelemetry. The span of a request has the pattern of its route as name, and
 * continues the trace of a client that sends `traceparent`. The statements of a request are spans in it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Attributes,
  defaultTextMapGetter,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import { errorText, type LogFields, type Logger, type LogLevel } from '@ropewalk/kit';
import { VERSION } from '@ropewalk/kit/version';
import type { FastifyInstance } from 'fastify';
import type { Services } from '../app/context/context.ts';
import { watchQueries } from '../db/query-times.ts';
import { routePattern, whenOver } from '../metrics/requests.ts';
import { traceJobs } from './jobs.ts';
import { type TraceConfig, type TraceTarget, traceSampler, traceTargets } from './targets.ts';

/** The standard's default. */
const SCHEDULE_DELAY_MS = 5_000;

export interface Tracing {
  /** The logger for everything that runs in requests. With --trace-logs, its lines are also events of their spans. */
  log: Logger;
  /** Traces the requests of every route of this server. Call it before the server is ready. */
  observe(app: FastifyInstance): void;
  /** Traces the jobs of this server, and the statements of its requests. Returns a function that ends it. */
  follow(services: Pick<Services, 'sql' | 'events' | 'log'>): () => void;
  /** Exports what is left. */
  close(): Promise<void>;
}

/** @throws AppError `invalid` for an invalid OTEL_* variable */
export async function startTracing(config: TraceConfig, env: NodeJS.ProcessEnv, log: Logger): Promise<Tracing> {
  const own = resourceFromAttributes({ 'service.name': 'coderd', 'service.version': VERSION });
  const scheduledDelayMillis = Number(env['OTEL_BSP_SCHEDULE_DELAY']) || SCHEDULE_DELAY_MS;
  const exporters = await Promise.all(traceTargets(config, env).map((target) => exporterTo(target, log)));
  const provider = new TracerProvider({
    resource: own.merge(detectResources({ detectors: [envDetector] })),
    sampler: traceSampler(env),
    spanProcessors: exporters.map((exporter) => new BatchSpanProcessor({ exporter, scheduledDelayMillis })),
  });
  const tracer = provider.getTracer('coderd', VERSION);
  const propagator = new W3CTraceContextPropagator();
  const current = new AsyncLocalStorage<Span>();
  return {
    log: config.traceLogs ? withEvents(log, () => current.getStore()) : log,
    observe(app) {
      app.addHook('onRequest', (request, reply, next) => {
        const { method, headers } = request;
        const route = routePattern(request);
        const parent = propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter);
        const attributes = { 'http.request.method': method, 'http.route': route, 'coder.request_id': request.id };
        const span = tracer.startSpan(`${method} ${route}`, { kind: SpanKind.SERVER, attributes }, parent);
        whenOver(request, reply, (code) => {
          if (code !== undefined) span.setAttribute('http.response.status_code', Number(code));
          if (code?.startsWith('5')) span.setStatus({ code: SpanStatusCode.ERROR });
          if (request.actor?.kind === 'user') span.setAttribute('enduser.id', request.actor.id);
          span.end();
        });
        current.run(span, next);
      });
    },
    follow(services) {
      const stopJobs = traceJobs(services, tracer);
      const stopQueries = watchQueries(services.sql, (statement) => {
        const parent = current.getStore();
        if (!parent?.isRecording()) return undefined;
        const attributes = { 'db.system.name': 'postgresql', 'db.query.summary': statement };
        const inside = trace.setSpan(ROOT_CONTEXT, parent);
        const span = tracer.startSpan(statement, { kind: SpanKind.CLIENT, attributes }, inside);
        return (err) => {
          if (err !== undefined) span.setStatus({ code: SpanStatusCode.ERROR });
          span.end();
        };
      });
      return () => {
        stopQueries();
        stopJobs();
      };
    },
    close: () => provider.shutdown(),
  };
}

/** An exporter that logs when exports start to fail, and when they work again. */
async function exporterTo({ protocol, ...options }: TraceTarget, log: Logger): Promise<SpanExporter> {
  // only one of the two is loaded
  const { OTLPTraceExporter } = await (protocol === 'grpc'
    ? import('@opentelemetry/exporter-trace-otlp-grpc')
    : import('@opentelemetry/exporter-trace-otlp-proto'));
  const exporter = new OTLPTraceExporter(options);
  let failing = false;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const failed = result.code === ExportResultCode.FAILED;
        if (failed && !failing) log.warn('could not export traces', { err: errorText(result.error) });
        if (!failed && failing) log.info('exporting traces works again');
        failing = failed;
        done(result);
      });
    },
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}

/** A logger that also adds each line to the span of the request. */
function withEvents(log: Logger, span: () => Span | undefined, fields: LogFields = {}): Logger {
  const both = (level: LogLevel) => (message: string, more?: LogFields) => {
    log[level](message, more);
    span()?.addEvent(message, { level, ...attributesOf({ ...fields, ...more }) });
  };
  return {
    debug: both('debug'),
    info: both('info'),
    warn: both('warn'),
    error: both('error'),
    // spans get the lines of all levels
    keeps: () => true,
    child: (more) => withEvents(log.child(more), span, { ...fields, ...more }),
  };
}

function attributesOf(fields: LogFields): Attributes {
  const simple = (value: unknown) =>
    typeof value === 'number' || typeof value === 'boolean' ? value : errorText(value);
  return Object.fromEntries(
    Object.entries(fields).flatMap(([key, value]) => (value === undefined ? [] : [[key, simple(value)]])),
  );
}
