// The objects of a control plane apart from its pods.
import type { ControlPlane } from '../crd/control-plane.ts';
import type { Ingress, Secret, Service, VolumeClaim } from '../kube/objects.ts';
import type { KubeObject } from '../kube/types.ts';
import { accountName, dataClaimName, hasTls, hostsOf, owned, portOf } from './names.ts';

export function serviceAccount(plane: ControlPlane): KubeObject {
  const { labels, annotations } = plane.spec.serviceAccount ?? {};
  const metadata = owned.metaOf(plane, accountName(plane));
  return {
    metadata: { ...metadata, labels: { ...labels, ...metadata.labels! }, ...(annotations ? { annotations } : {}) },
  };
}

export function service(plane: ControlPlane): Service {
  const { type = 'ClusterIP', annotations } = plane.spec.service ?? {};
  return {
    metadata: { ...owned.metaOf(plane, plane.metadata.name), ...(annotations ? { annotations } : {}) },
    spec: {
      type,
      selector: owned.selectorOf(plane),
      ports: [
        { name: 'http', port: portOf(plane), targetPort: 'http', protocol: 'TCP' },
        ...(hasTls(plane) ? [{ name: 'https', port: 443, targetPort: 'https', protocol: 'TCP' }] : []),
      ],
    },
  };
}

export function ingress(plane: ControlPlane): Ingress {
  const { className, annotations, tls } = plane.spec.expose!.ingress!;
  const { name } = plane.metadata;
  const { host, wildcard } = hostsOf(plane)!;
  const http = {
    paths: [{ path: '/', pathType: 'Prefix', backend: { service: { name, port: { name: 'http' } } } }],
  };
  return {
    metadata: { ...owned.metaOf(plane, name), ...(annotations ? { annotations } : {}) },
    spec: {
      ingressClassName: className || undefined,
      rules: [{ host, http }, ...(wildcard ? [{ host: wildcard, http }] : [])],
      tls: [
        ...(tls?.secretName ? [{ hosts: [host], secretName: tls.secretName }] : []),
        ...(wildcard && tls?.wildcardSecretName ? [{ hosts: [wildcard], secretName: tls.wildcardSecretName }] : []),
      ],
    },
  };
}

/** Limits how many servers a node drain stops at the same time. */
export function disruptionBudget(plane: ControlPlane): KubeObject {
  const spec = {
    maxUnavailable: plane.spec.podDisruptionBudget?.maxUnavailable ?? 1,
    // a server that is not ready serves nobody
    unhealthyPodEvictionPolicy: 'AlwaysAllow',
    selector: { matchLabels: owned.selectorOf(plane) },
  };
  return { metadata: owned.metaOf(plane, plane.metadata.name), spec } as KubeObject;
}

export interface HttpRoute extends KubeObject {
  spec: { hostnames: string[]; parentRefs: object[]; rules: object[] };
  status?: { parents?: { conditions?: { type: string; status: string; message?: string }[] }[] };
}

export function httpRoute(plane: ControlPlane): HttpRoute {
  const { name } = plane.metadata;
  const { host, wildcard } = hostsOf(plane)!;
  return {
    metadata: owned.metaOf(plane, name),
    spec: {
      hostnames: [host, ...(wildcard ? [wildcard] : [])],
      parentRefs: plane.spec.expose!.gateway!.parentRefs,
      rules: [
        { matches: [{ path: { type: 'PathPrefix', value: '/' } }], backendRefs: [{ name, port: portOf(plane) }] },
      ],
    },
  };
}

export function tokenSecret(plane: ControlPlane, { name, key }: { name: string; key: string }, token: string): Secret {
  return {
    metadata: owned.metaOf(plane, name),
    type: 'Opaque',
    data: { [key]: Buffer.from(token).toString('base64') },
  };
}

/** The volume of the bundled database. It has no owner: the data outlives the control plane. */
export function dataClaim(plane: ControlPlane): VolumeClaim {
  const { storage, storageClassName } = plane.spec.postgres!.bundled!;
  const { ownerReferences: _, ...metadata } = owned.metaOf(plane, dataClaimName(plane));
  return {
    metadata,
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: storageClassName || undefined,
      resources: { requests: { storage } },
    },
  };
}
