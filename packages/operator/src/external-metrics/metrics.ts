// What the external metrics API of Kubernetes answers: https://github.com/kubernetes/metrics. Only the shapes are Kubernetes'.
import { ownValue } from '@ropewalk/kit/own-value';
import type { Provisioner } from '../crd/provisioner.ts';
import { kubeTime } from '../kube/types.ts';
import { currentDemand, type Demand, daemonsNeeded } from '../provisioner/demand.ts';
import { owned } from '../provisioner/names.ts';
import type { World } from '../world.ts';
import type { Selector } from './label-selector.ts';

export const GROUP = 'external.metrics.k8s.io';
export const VERSION = 'v1beta1';
const GROUP_VERSION = `${GROUP}/${VERSION}`;

const METRICS: Readonly<Record<string, (demand: Demand) => number>> = {
  coder_provisioner_needed_daemons: daemonsNeeded,
  coder_provisioner_pending_jobs: ({ pending }) => pending,
};

export const isMetric = (name: string): boolean => Object.hasOwn(METRICS, name);

/** The metrics, as the API server lists the resources of a group. */
export const RESOURCES = {
  kind: 'APIResourceList',
  apiVersion: 'v1',
  groupVersion: GROUP_VERSION,
  resources: Object.keys(METRICS).map((name) => ({
    name,
    singularName: '',
    namespaced: true,
    kind: 'ExternalMetricValueList',
    verbs: ['get'],
  })),
};

/** The labels that a selector is compared with: those of the object, and its name. */
function labelsOf({ metadata }: Provisioner): Record<string, string> {
  return { ...metadata.labels, [owned.nameLabel]: metadata.name };
}

/**
 * The values of a metric for the provisioners of a namespace. It fails if one of them is unknown, because their sum would
 * be too small and would remove daemons. @throws ServerProblem.
 */
export async function valuesOf(world: World, metric: string, namespace: string, selects: Selector): Promise<object> {
  const selected = [...world.caches.provisioners.all()].filter(
    (each) => each.metadata.namespace === namespace && !each.metadata.deletionTimestamp && selects(labelsOf(each)),
  );
  const items = await Promise.all(
    selected.map(async (provisioner) => {
      const value = ownValue(METRICS, metric)!(await currentDemand(world, provisioner));
      return {
        metricName: metric,
        metricLabels: labelsOf(provisioner),
        timestamp: kubeTime(world.clock.now()),
        value: String(value),
      };
    }),
  );
  return { kind: 'ExternalMetricValueList', apiVersion: GROUP_VERSION, metadata: {}, items };
}
