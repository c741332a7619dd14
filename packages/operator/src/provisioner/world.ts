import type { Clock, Logger } from '@platform/kit';
import type { Provisioner } from '../crd/provisioner.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Lookup } from '../kube/lookup.ts';
import type { KubeObject } from '../kube/types.ts';
import type { Report } from '../machinery/events.ts';
import type { Informer } from '../machinery/informer.ts';
import type { Deployment, Job, Role, RoleBinding, Secret } from './objects.ts';
import type { Servers } from './server.ts';
import type { UncollectedKeys } from './uncollected.ts';

export interface Pod extends KubeObject {
  status?: { phase?: string };
}

/** The local copies that the reconciler reads. */
export interface Caches {
  provisioners: Informer<Provisioner>;
  secrets: Informer<Secret>;
  accounts: Informer<KubeObject>;
  roles: Informer<Role>;
  bindings: Informer<RoleBinding>;
  deployments: Informer<Deployment>;
  jobs: Informer<Job>;
  pods: Informer<Pod>;
  budgets: Informer<KubeObject>;
}

/** What the reconciler of provisioners works with. */
export interface World {
  client: KubeClient;
  caches: Caches;
  lookup: Lookup;
  servers: Servers;
  uncollected: UncollectedKeys;
  report: Report;
  clock: Clock;
  log: Logger;
}
