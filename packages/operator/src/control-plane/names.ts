import { CONTROL_PLANES, type ControlPlane } from '../crd/control-plane.ts';
import { ownership } from '../machinery/owned.ts';

/** The labels of a control plane's objects. */
export const owned = ownership<ControlPlane>(CONTROL_PLANES, 'control-plane');

export const accountName = ({ metadata, spec }: ControlPlane): string => spec.serviceAccount?.name || metadata.name;

export const dataClaimName = ({ metadata }: ControlPlane): string => `${metadata.name}-data`;

/** Where the operator's token is stored. Undefined if it gets none. */
export function tokenSecretOf({ metadata, spec }: ControlPlane): { name: string; key: string } | undefined {
  const { disabled, generatedTokenSecretName } = spec.operatorAccess ?? {};
  if (disabled) return undefined;
  return { name: generatedTokenSecretName || `${metadata.name}-operator-token`, key: 'token' };
}

export const hasTls = ({ spec }: ControlPlane): boolean => (spec.tls?.secretNames ?? []).length > 0;

/** The port of the Service for requests without TLS. */
export const portOf = ({ spec }: ControlPlane): number => spec.service?.port ?? 80;

/** The URL of the servers in the cluster. */
export function clusterUrl(plane: ControlPlane): string {
  const { name, namespace } = plane.metadata;
  const host = `${name}.${namespace}.svc.cluster.local`;
  if (hasTls(plane)) return `https://${host}`;
  const port = portOf(plane);
  return port === 80 ? `http://${host}` : `http://${host}:${port}`;
}

/** The host names from outside. The Ingress and the HTTPRoute know only `*.` and a domain. */
export function hostsOf({ spec }: ControlPlane): { host: string; wildcard?: string | undefined } | undefined {
  const exposed = spec.expose?.ingress ?? spec.expose?.gateway;
  if (!exposed) return undefined;
  return { host: exposed.host, wildcard: exposed.wildcardHost?.replace(/^\*[^.]*/, '*') || undefined };
}
