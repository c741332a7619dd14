/** A kind of object, by the names that the API server's paths and manifests use. */
export interface Resource {
  /** Empty for the core group. */
  group: string;
  version: string;
  kind: string;
  /** The plural in paths. */
  plural: string;
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
}

/** Any object of the API server. */
export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

/** A condition in status, as Kubernetes defines it. */
export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason: string;
  message: string;
  lastTransitionTime: string;
  observedGeneration?: number;
}

export interface SecretKeySelector {
  name: string;
  key?: string;
}

export const apiVersionOf = ({ group, version }: Resource): string => (group === '' ? version : `${group}/${version}`);

const core = (kind: string, plural: string): Resource => ({ group: '', version: 'v1', kind, plural });
const rbac = (kind: string, plural: string): Resource => ({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  kind,
  plural,
});

export const SECRETS = core('Secret', 'secrets');
export const SERVICE_ACCOUNTS = core('ServiceAccount', 'serviceaccounts');
export const PODS = core('Pod', 'pods');
export const EVENTS = core('Event', 'events');
export const CONFIG_MAPS = core('ConfigMap', 'configmaps');
export const SERVICES = core('Service', 'services');
export const VOLUME_CLAIMS = core('PersistentVolumeClaim', 'persistentvolumeclaims');
export const ROLES = rbac('Role', 'roles');
export const ROLE_BINDINGS = rbac('RoleBinding', 'rolebindings');
export const DEPLOYMENTS: Resource = { group: 'apps', version: 'v1', kind: 'Deployment', plural: 'deployments' };
export const JOBS: Resource = { group: 'batch', version: 'v1', kind: 'Job', plural: 'jobs' };
export const LEASES: Resource = { group: 'coordination.k8s.io', version: 'v1', kind: 'Lease', plural: 'leases' };
export const POD_DISRUPTION_BUDGETS: Resource = {
  group: 'policy',
  version: 'v1',
  kind: 'PodDisruptionBudget',
  plural: 'poddisruptionbudgets',
};

export const INGRESSES: Resource = { group: 'networking.k8s.io', version: 'v1', kind: 'Ingress', plural: 'ingresses' };
/** Of the Gateway API, which not every cluster has. */
export const HTTP_ROUTES: Resource = {
  group: 'gateway.networking.k8s.io',
  version: 'v1',
  kind: 'HTTPRoute',
  plural: 'httproutes',
};

/** Which Service serves a group of APIs that is not the API server's own. */
export const API_SERVICES: Resource = {
  group: 'apiregistration.k8s.io',
  version: 'v1',
  kind: 'APIService',
  plural: 'apiservices',
};

export const SUBJECT_ACCESS_REVIEWS: Resource = {
  group: 'authorization.k8s.io',
  version: 'v1',
  kind: 'SubjectAccessReview',
  plural: 'subjectaccessreviews',
};

export const REFERENCE_GRANTS: Resource = {
  group: 'gateway.networking.k8s.io',
  version: 'v1beta1',
  kind: 'ReferenceGrant',
  plural: 'referencegrants',
};

/** A time as Kubernetes stores it: in whole seconds. */
export const kubeTime = (time: Date): string => time.toISOString().replace(/\.\d+Z$/, 'Z');
