import type { ControlPlane } from './crd/control-plane.ts';
import type { Provisioner } from './crd/provisioner.ts';
import type { WorkspaceProxy } from './crd/workspace-proxy.ts';
import type { Deployment, Ingress, Job, Pod, Role, RoleBinding, Secret, Service } from './kube/objects.ts';
import type { KubeObject } from './kube/types.ts';
import type { Informer } from './machinery/informer.ts';

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
