// What the operator knows about the proxy that it created at a server: written into the Secret with the token, which people may
// change, so that a proof shows that the operator wrote it. And what it was about to create.
import { WORKSPACE_PROXIES, type WorkspaceProxy } from '../crd/workspace-proxy.ts';
import type { Secret } from '../kube/objects.ts';
import { creationNotes } from '../machinery/creation-notes.ts';
import type { Proofs } from '../machinery/proofs.ts';

/** A deletion waits until the operator has deleted the proxy at the server. */
export const FINALIZER = 'coder.com/workspace-proxy-cleanup';

const ID = 'coder.com/proxy-id';
const SERVER = 'coder.com/proxy-server';
const PROOF = 'coder.com/proxy-proof';

/** The notes of proxies that are about to be created. */
export const pendingProxies = creationNotes<WorkspaceProxy, 'name' | 'url'>({
  resource: WORKSPACE_PROXIES,
  annotation: 'coder.com/pending-proxy',
  finalizer: FINALIZER,
  kind: 'pending proxy',
  fields: ['name', 'url'],
});

/** A proxy at a server. */
export interface ServerProxy {
  id: string;
  /** URL of the server. */
  url: string;
}

const provedWords = ({ metadata }: WorkspaceProxy, { id, url }: ServerProxy): string[] => [
  'proxy',
  metadata.namespace!,
  metadata.name,
  id,
  url,
];

/** The annotations of the Secret with the token. */
export function annotationsOf(proofs: Proofs, proxy: WorkspaceProxy, at: ServerProxy): Record<string, string> {
  return { [ID]: at.id, [SERVER]: at.url, [PROOF]: proofs.of(provedWords(proxy, at)) };
}

/** The proxy whose token a Secret has. Undefined if the operator did not write that. */
export function proxyInSecret(proofs: Proofs, proxy: WorkspaceProxy, secret?: Secret): ServerProxy | undefined {
  const { [ID]: id, [SERVER]: url, [PROOF]: proof } = secret?.metadata.annotations ?? {};
  if (id === undefined || url === undefined) return undefined;
  return proofs.holds(proof, provedWords(proxy, { id, url })) ? { id, url } : undefined;
}

/** The proxy that the operator created last, also if its Secret is lost: only the operator may write the status. */
export function proxyInStatus({ status }: WorkspaceProxy): ServerProxy | undefined {
  const { proxyID: id, proxyServerURL: url } = status ?? {};
  return id && url ? { id, url } : undefined;
}
