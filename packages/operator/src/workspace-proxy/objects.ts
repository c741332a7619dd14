// The objects that the operator creates for a workspace proxy.
import { WORKSPACE_PROXIES, type WorkspaceProxy } from '../crd/workspace-proxy.ts';
import type { Deployment, Service } from '../kube/objects.ts';
import { ownership } from '../machinery/owned.ts';

/** The labels of a workspace proxy's objects. */
export const owned = ownership<WorkspaceProxy>(WORKSPACE_PROXIES, 'workspace-proxy');

const PROGRAM = '/opt/coder';
const PORT = 3001;

/** Next to a control plane or another object of this name. */
export const nameOf = ({ metadata }: WorkspaceProxy): string => `wsproxy-${metadata.name}`;

/** What the pods need in addition to the spec. */
export interface Runtime {
  image: string;
  url: string;
  token: { name: string; key: string };
  /** Checksum of the token, so that another token replaces the pods. */
  tokenChecksum: string;
}

export function deployment(proxy: WorkspaceProxy, { image, url, token, tokenChecksum }: Runtime): Deployment {
  const { spec } = proxy;
  const given = spec.extraEnv ?? [];
  const own = [
    { name: 'CODER_PRIMARY_ACCESS_URL', value: url },
    { name: 'CODER_PROXY_SESSION_TOKEN', valueFrom: { secretKeyRef: token } },
  ];
  return {
    metadata: owned.metaOf(proxy, nameOf(proxy)),
    spec: {
      replicas: spec.replicas ?? 1,
      selector: { matchLabels: owned.selectorOf(proxy) },
      template: {
        metadata: { labels: owned.labelsOf(proxy), annotations: { 'checksum/proxy-token': tokenChecksum } },
        spec: {
          automountServiceAccountToken: false,
          imagePullSecrets: spec.imagePullSecrets,
          containers: [
            {
              name: 'coder',
              image,
              command: [PROGRAM],
              args: [
                'wsproxy',
                'server',
                `--http-address=0.0.0.0:${PORT}`,
                ...(spec.derpOnly ? ['--derp-only'] : []),
                ...(spec.extraArgs ?? []),
              ],
              env: [...own.filter(({ name }) => !given.some((each) => each.name === name)), ...given],
              ports: [{ name: 'http', containerPort: PORT, protocol: 'TCP' }],
              // registered at the server
              readinessProbe: { httpGet: { path: '/readyz', port: 'http' } },
              livenessProbe: { httpGet: { path: '/healthz', port: 'http' } },
            },
          ],
        },
      },
    },
  };
}

export function service(proxy: WorkspaceProxy): Service {
  const { type = 'ClusterIP', port = 80, annotations } = proxy.spec.service ?? {};
  return {
    metadata: { ...owned.metaOf(proxy, nameOf(proxy)), ...(annotations ? { annotations } : {}) },
    spec: {
      type,
      selector: owned.selectorOf(proxy),
      ports: [{ name: 'http', port, targetPort: 'http', protocol: 'TCP' }],
    },
  };
}
