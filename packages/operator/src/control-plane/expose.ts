import { CONTROL_PLANES, type ControlPlane } from '../crd/control-plane.ts';
import { ignoreNotFound, isNotFound } from '../kube/client.ts';
import { HTTP_ROUTES, INGRESSES } from '../kube/types.ts';
import { applyChanges, applyOrDelete } from '../machinery/apply.ts';
import type { NewCondition } from '../machinery/conditions.ts';
import { condition } from '../machinery/status.ts';
import type { World } from '../world.ts';
import { type HttpRoute, httpRoute, ingress } from './objects.ts';

/** How often to look at a route: the operator does not watch the Gateway API, which not every cluster has. */
const LOOK_MS = 2 * 60_000;

export interface Exposure {
  conditions: NewCondition[];
  againMs?: number;
}

/** Applies the Ingress or the HTTPRoute, and deletes the other one. */
export async function applyExposure(world: World, plane: ControlPlane): Promise<Exposure> {
  const { client, caches } = world;
  const { namespace = '', name } = plane.metadata;
  const { ingress: wanted, gateway } = plane.spec.expose ?? {};
  const target = wanted && ingress(plane);
  await applyOrDelete(client, INGRESSES, caches.ingresses, { namespace, name, wanted: target });
  if (gateway) return applyRoute(world, plane);
  const was = plane.status?.conditions?.find(({ type }) => type === 'Exposed');
  if (was?.reason.startsWith('HTTPRoute')) await client.delete(HTTP_ROUTES, namespace, name).catch(ignoreNotFound);
  if (wanted)
    return { conditions: [condition('Exposed', true, 'IngressApplied', `The Ingress has the host ${wanted.host}.`)] };
  // a condition that once was stays in the list
  return { conditions: was ? [condition('Exposed', false, 'NotExposed', 'expose is not set.')] : [] };
}

async function applyRoute({ client, report }: World, plane: ControlPlane): Promise<Exposure> {
  const { namespace = '', name } = plane.metadata;
  try {
    const live = await client.get<HttpRoute>(HTTP_ROUTES, namespace, name).catch((err) => {
      if (!isNotFound(err)) throw err;
      return undefined;
    });
    const { status } = await applyChanges(client, HTTP_ROUTES, httpRoute(plane), live);
    const accepted = (status?.parents ?? []).map(({ conditions = [] }) =>
      conditions.find(({ type }) => type === 'Accepted'),
    );
    const rejected = accepted.find((each) => each?.status === 'False');
    const state = rejected
      ? condition('Exposed', false, 'HTTPRouteRejected', rejected.message ?? 'A Gateway rejects the route.')
      : accepted.some((each) => each?.status === 'True')
        ? condition('Exposed', true, 'HTTPRouteAccepted')
        : condition('Exposed', 'Unknown', 'HTTPRouteApplied', 'No Gateway has accepted the route yet.');
    return { conditions: [state], againMs: LOOK_MS };
  } catch (err) {
    if (!isNotFound(err)) throw err;
    const message = 'The cluster has no Gateway API. Install its custom resources, or use expose.ingress.';
    await report(CONTROL_PLANES, plane, 'Warning', 'GatewayAPIMissing', message);
    return { conditions: [condition('Exposed', false, 'GatewayAPIMissing', message)], againMs: LOOK_MS };
  }
}
