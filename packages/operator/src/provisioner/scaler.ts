// KEDA's external scaler, for people who scale with KEDA instead of spec.autoscaling: https://keda.sh/docs/latest/concepts/external-scalers/.
// The metric is the number of daemons that a provisioner needs: its running builds, and the jobs in the queue that its tags match.
import { create, fromBinary, type Message, toBinary } from '@bufbuild/protobuf';
import type { GenMessage } from '@bufbuild/protobuf/codegenv2';
import type { Logger } from '@platform/kit';
import { GRPC_STATUS, GrpcError, type GrpcServer, serveGrpc, type UnaryHandler } from '@platform/kit/grpc';
import {
  GetMetricSpecResponseSchema,
  GetMetricsRequestSchema,
  GetMetricsResponseSchema,
  IsActiveResponseSchema,
  type ScaledObjectRef,
  ScaledObjectRefSchema,
} from '@platform/wire/proto/externalscaler';
import { keyOf as nameOf } from '../machinery/informer.ts';
import type { World } from '../world.ts';
import { factsOf, keyOf, retiredKeys } from './keys.ts';
import { keySecretOf } from './names.ts';
import { demandOf } from './scale.ts';
import { ServerProblem } from './server.ts';
import { resolveTarget } from './target.ts';

const METRIC = 'daemons';

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
  const facts = factsOf(world.caches.secrets.get(namespace, keySecretOf(provisioner).name));
  const keys = [...(facts ? [keyOf(facts)] : []), ...retiredKeys(provisioner.status, facts)].map((key) => key.name);
  try {
    const { target } = await resolveTarget(provisioner, world);
    const { state } = await world.servers.look(nameOf(provisioner), target);
    const daemons = state.daemons.filter(({ key_name }) => keys.includes(key_name ?? ''));
    const { pending, busy } = demandOf({ provisioner, daemons, pending: state.pending });
    return pending + busy;
  } catch (err) {
    throw err instanceof ServerProblem ? new GrpcError(GRPC_STATUS.unavailable, err.message) : err;
  }
}

/** Serves KEDA's requests. Everything that reaches the port may read these numbers, and nothing else. */
export function serveScaler(world: World, at: { host: string; port: number }, log: Logger): Promise<GrpcServer> {
  const method = <Request extends Message, Response extends Message>(
    name: string,
    request: GenMessage<Request>,
    response: GenMessage<Response>,
    answer: (message: Request) => Promise<Response>,
  ): [string, UnaryHandler] => [
    `/externalscaler.ExternalScaler/${name}`,
    async (bytes) => toBinary(response, await answer(fromBinary(request, bytes))),
  ];
  const handlers = new Map([
    method('IsActive', ScaledObjectRefSchema, IsActiveResponseSchema, async (ref) =>
      create(IsActiveResponseSchema, { result: (await needed(world, ref)) > 0 }),
    ),
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
