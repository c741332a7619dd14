// What the operator knows about the proxy that it created at a server: written into the Secret with the token, and before the
// creation onto the CoderWorkspaceProxy. People may change both, so a proof shows that the operator wrote it.
import { WORKSPACE_PROXIES, type WorkspaceProxy } from '../crd/workspace-proxy.ts';
import type { Secret } from '../kube/objects.ts';
import type { Proofs } from '../provisioner/proofs.ts';
import type { World } from '../world.ts';

/** A deletion waits until the operator has deleted the proxy at the server. */
export const FINALIZER = 'coder.com/workspace-proxy-cleanup';

const ID = 'coder.com/proxy-id';
const SERVER = 'coder.com/proxy-server';
const PROOF = 'coder.com/proxy-proof';
const PENDING = 'coder.com/pending-proxy';
/** How long a creation takes, and how much the clocks of the operator and the server may differ, in ms. */
const AROUND_MS = 60_000;

/** A proxy at a server. */
export interface ServerProxy {
  id: string;
  /** URL of the server. */
  url: string;
}

/** A proxy that the operator was about to create. */
export interface PendingProxy {
  name: string;
  url: string;
  /** When it was noted. A proxy of this name from another time belongs to someone else. */
  at: string;
}

const words = (kind: string, { metadata }: WorkspaceProxy, values: readonly string[]): string[] => [
  kind,
  metadata.namespace!,
  metadata.name,
  ...values,
];

/** The annotations of the Secret with the token. */
export function annotationsOf(proofs: Proofs, proxy: WorkspaceProxy, { id, url }: ServerProxy): Record<string, string> {
  return { [ID]: id, [SERVER]: url, [PROOF]: proofs.of(words('proxy', proxy, [id, url])) };
}

/** The proxy whose token a Secret has. Undefined if the operator did not write that. */
export function proxyInSecret(proofs: Proofs, proxy: WorkspaceProxy, secret?: Secret): ServerProxy | undefined {
  const { [ID]: id, [SERVER]: url, [PROOF]: proof } = secret?.metadata.annotations ?? {};
  if (id === undefined || url === undefined) return undefined;
  return proofs.holds(proof, words('proxy', proxy, [id, url])) ? { id, url } : undefined;
}

/** The proxy that the operator created last, also if its Secret is lost: only the operator may write the status. */
export function proxyInStatus({ status }: WorkspaceProxy): ServerProxy | undefined {
  const { proxyID: id, proxyServerURL: url } = status ?? {};
  return id && url ? { id, url } : undefined;
}

/** The proxy that the operator was about to create. Undefined as well for a note of someone else. */
export function pendingProxy(proofs: Proofs, proxy: WorkspaceProxy): PendingProxy | undefined {
  const text = proxy.metadata.annotations?.[PENDING];
  if (text === undefined) return undefined;
  try {
    const { name, url, at, proof } = JSON.parse(text) as PendingProxy & { proof: string };
    return proofs.holds(proof, words('pending proxy', proxy, [name, url, at])) ? { name, url, at } : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the server made a proxy at the time of the note. */
export const isPending = ({ at }: PendingProxy, { created_at }: { created_at: string }): boolean =>
  Math.abs(Date.parse(created_at) - Date.parse(at)) <= AROUND_MS;

/**
 * Notes a proxy before it is created, and that a deletion waits for the operator. The token is shown once: if the operator ends before
 * it is stored, the next one finds the proxy by this note.
 */
export async function notePendingProxy(
  { client, caches, clock, proofs }: World,
  proxy: WorkspaceProxy,
  { name, url }: { name: string; url: string },
): Promise<WorkspaceProxy> {
  const { namespace = '', name: own, resourceVersion, finalizers = [] } = proxy.metadata;
  const at = clock.now().toISOString();
  const proof = proofs.of(words('pending proxy', proxy, [name, url, at]));
  const noted = await client.merge<WorkspaceProxy>(
    WORKSPACE_PROXIES,
    { namespace, name: own },
    {
      metadata: {
        resourceVersion,
        finalizers: [...finalizers.filter((each) => each !== FINALIZER), FINALIZER],
        annotations: { [PENDING]: JSON.stringify({ name, url, at, proof }) },
      },
    },
  );
  caches.proxies.store(noted);
  return noted;
}
