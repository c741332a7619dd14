import type { Clock, Logger } from '@ropewalk/kit';
import type { ControlPlane } from './crd/control-plane.ts';
import type { Provisioner } from './crd/provisioner.ts';
import type { WorkspaceProxy } from './crd/workspace-proxy.ts';
import type { KubeClient } from './kube/client.ts';
import type { Lookup } from './kube/lookup.ts';
import type { Deployment, Ingress, Job, Pod, Role, RoleBinding, Secret, Service } from './kube/objects.ts';
import type { KubeObject } from './kube/types.ts';
import type { Changes } from './machinery/changes.ts';
import type { Report } from './machinery/events.ts';
import type { Informer } from './machinery/informer.ts';
import type { MovedKeys } from './provisioner/delete-key.ts';
import type { Proofs } from './provisioner/proofs.ts';
import type { Servers } from './provisioner/server.ts';
import type { UncollectedKeys } from './provisioner/uncollected.ts';

/** The local copies that the reconcilers read. */
export interface Caches {
  controlPlanes: Informer<ControlPlane>;
  provisioners: Informer<Provisioner>;
  proxies: Informer<WorkspaceProxy>;
  secrets: Informer<Secret>;
  accounts: Informer<KubeObject>;
  roles: Informer<Role>;
  bindings: Informer<RoleBinding>;
  deployments: Informer<Deployment>;
  jobs: Informer<Job>;
  pods: Informer<Pod>;
  budgets: Informer<KubeObject>;
  services: Informer<Service>;
  ingresses: Informer<Ingress>;
}

/** What the reconcilers work with. */
export interface World {
  client: KubeClient;
  caches: Caches;
  lookup: Lookup;
  servers: Servers;
  /** Raised when the demand for daemons may be another one. */
  demandChanges: Changes;
  uncollected: UncollectedKeys;
  movedKeys: MovedKeys;
  proofs: Proofs;
  report: Report;
  clock: Clock;
  log: Logger;
  /** The image of a control plane that names none. */
  defaultImage: string;
}
