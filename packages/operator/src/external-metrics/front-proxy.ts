// How the API server vouches for a person when it forwards their request: it presents the client certificate of its front
// proxy, and names the person in headers. Which authority and which headers those are is in the ConfigMap
// extension-apiserver-authentication of each cluster.
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { KubeObject } from '../kube/types.ts';

export interface FrontProxyConfig extends KubeObject {
  data?: Record<string, string>;
}

export interface FrontProxy {
  /** The authorities of its certificate, as PEM. */
  ca: string;
  /** The common names of its certificate. Any if empty. */
  allowedNames: readonly string[];
  userHeaders: readonly string[];
  uidHeaders: readonly string[];
  groupHeaders: readonly string[];
  extraPrefixes: readonly string[];
}

/** A person or program, as a SubjectAccessReview names them. */
export interface User {
  user: string;
  uid?: string;
  groups: string[];
  extra: Record<string, string[]>;
}

/** Undefined for a cluster without a front proxy. */
export function frontProxyOf({ data = {} }: FrontProxyConfig): FrontProxy | undefined {
  const ca = data['requestheader-client-ca-file'];
  if (!ca) return undefined;
  const list = (name: string) => (JSON.parse(data[`requestheader-${name}`] || '[]') ?? []) as string[];
  const headers = (name: string) => list(name).map((header) => header.toLowerCase());
  return {
    ca,
    allowedNames: list('allowed-names'),
    userHeaders: headers('username-headers'),
    uidHeaders: headers('uid-headers'),
    groupHeaders: headers('group-headers'),
    extraPrefixes: headers('extra-headers-prefix'),
  };
}

/** Who sent a request, if it came through the front proxy. */
export function userOf(request: IncomingMessage, proxy: FrontProxy): User | undefined {
  const { headersDistinct } = request;
  const socket = request.socket as TLSSocket;
  if (!socket.authorized) return undefined;
  const { CN } = socket.getPeerCertificate().subject;
  if (proxy.allowedNames.length > 0 && !(typeof CN === 'string' && proxy.allowedNames.includes(CN))) return undefined;
  const valuesOf = (names: readonly string[]) => names.flatMap((name) => headersDistinct[name] ?? []);
  const firstOf = (names: readonly string[]) => valuesOf(names).find((value) => value !== '');
  const user = firstOf(proxy.userHeaders);
  if (user === undefined) return undefined;
  const uid = firstOf(proxy.uidHeaders);
  const extra: Record<string, string[]> = {};
  for (const [name, values = []] of Object.entries(headersDistinct)) {
    const prefix = proxy.extraPrefixes.find((each) => name.startsWith(each));
    if (prefix === undefined) continue;
    extra[unescaped(name.slice(prefix.length))] = values;
  }
  return { user, ...(uid === undefined ? {} : { uid }), groups: valuesOf(proxy.groupHeaders), extra };
}

function unescaped(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}
