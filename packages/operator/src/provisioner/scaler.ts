// KEDA's external scaler, for people who scale with KEDA instead of spec.autoscaling: https://keda.sh/docs/latest/concepts/external-scalers/.
// The metric is the number of daemons that a provisioner needs: its running builds, and the jobs in the queue that its tags match.
// A trigger of the type `external` asks for it from time to time. One of the type `external-push` also keeps a stream open that
// says when the number leaves zero, and when it is zero again.
import { create, fromBinary, type Message, toBinary } from '@bufbuild/protobuf';
import type { GenMessage } from '@bufbuild/protobuf/codegenv2';
import type { Logger } from '@ropewalk/kit';
import { GRPC_STATUS, GrpcError, type GrpcHandler, type GrpcServer, serveGrpc } from '@ropewalk/kit/grpc';
import {
  GetMetricSpecResponseSchema,
  GetMetricsRequestSchema,
  GetMetricsResponseSchema,
  IsActiveResponseSchema,
  type ScaledObjectRef,
  ScaledObjectRefSchema,
} from '@ropewalk/wire/proto/externalscaler';
import type { World } from '../world.ts';
import { currentDemand, daemonsNeeded } from './demand.ts';
import { ServerProblem } from './server.ts';

const METRIC = 'daemons';
/** How many streams may be open. KEDA opens one for each trigger. */
const MAX_STREAMS = 1_000;
const SERVICE = '/externalscaler.ExternalScaler';

/** How many daemons the provisioner of a trigger needs. @throws GrpcError. */
async function needed(world: World, ref: ScaledObjectRef | undefined): Promise<number> {
  const { namespace = '', scalerMetadata: { provisioner: name = '' } = {} } = ref ?? {};
  if (name === '')
    throw new GrpcError(
      GRPC_STATUS.failedPrecondition,
      'Set provisioner in the metadata of the trigger to the name of a CoderProvisioner.',
    );
  const provisioner = world.caches.provisioners.get(namespace, name);
  if (!provisioner) {
    const message = `There is no CoderProvisioner "${name}" in the namespace "${namespace}".`;
    throw new GrpcError(GRPC_STATUS.notFound, message);
  }
  if (provisioner.spec.autoscaling) {
    const message = `The CoderProvisioner "${name}" scales itself. Remove its autoscaling to scale it with KEDA.`;
    throw new GrpcError(GRPC_STATUS.failedPrecondition, message);
  }
  try {
    return daemonsNeeded(await currentDemand(world, provisioner));
  } catch (err) {
    throw err instanceof ServerProblem ? new GrpcError(GRPC_STATUS.unavailable, err.message) : err;
  }
}

/**
 * Yields whether any daemon is needed, immediately and whenever that changes. A server that stops answering keeps the last answer, so
 * that daemons that run continue.
 */
async function* activity(world: World, ref: ScaledObjectRef, signal: AbortSignal): AsyncGenerator<boolean> {
  let last: boolean | undefined;
  while (!signal.aborted) {
    const seen = world.demandChanges.count;
    try {
      const active = (await needed(world, ref)) > 0;
      if (active !== last && !signal.aborted) {
        last = active;
        yield active;
      }
    } catch (err) {
      const passes = err instanceof GrpcError && err.status === GRPC_STATUS.unavailable;
      if (last === undefined || !passes) throw err;
    }
    await world.demandChanges.since(seen, signal);
  }
}

/** Serves KEDA's requests. Everything that reaches the port may read these numbers, and nothing else. */
export function serveScaler(world: World, at: { host: string; port: number }, log: Logger): Promise<GrpcServer> {
  const method = <Request extends Message, Response extends Message>(
    name: string,
    request: GenMessage<Request>,
    response: GenMessage<Response>,
    answer: (message: Request) => Promise<Response>,
  ): [string, GrpcHandler] => [
    `${SERVICE}/${name}`,
    async (bytes) => toBinary(response, await answer(fromBinary(request, bytes))),
  ];
  const isActive = (result: boolean) => create(IsActiveResponseSchema, { result });
  let streams = 0;
  const handlers = new Map<string, GrpcHandler>([
    method('IsActive', ScaledObjectRefSchema, IsActiveResponseSchema, async (ref) =>
      isActive((await needed(world, ref)) > 0),
    ),
    [
      `${SERVICE}/StreamIsActive`,
      async function* (request, { signal }) {
        if (streams >= MAX_STREAMS) {
          const message = `The operator serves at most ${MAX_STREAMS} streams. Use triggers of the type external instead of external-push.`;
          throw new GrpcError(GRPC_STATUS.resourceExhausted, message);
        }
        streams++;
        try {
          const ref = fromBinary(ScaledObjectRefSchema, request);
          for await (const active of activity(world, ref, signal))
            yield toBinary(IsActiveResponseSchema, isActive(active));
        } finally {
          streams--;
        }
      },
    ],
    method('GetMetricSpec', ScaledObjectRefSchema, GetMetricSpecResponseSchema, async () =>
      create(GetMetricSpecResponseSchema, {
        metricSpecs: [{ metricName: METRIC, targetSize: 1n, targetSizeFloat: 1 }],
      }),
    ),
    method('GetMetrics', GetMetricsRequestSchema, GetMetricsResponseSchema, async ({ scaledObjectRef, metricName }) => {
      const count = await needed(world, scaledObjectRef);
      return create(GetMetricsResponseSchema, {
        metricValues: [{ metricName, metricValue: BigInt(count), metricValueFloat: count }],
      });
    }),
  ]);
  return serveGrpc(at, handlers, log);
}
