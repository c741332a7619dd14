import type { PingResult, TailnetNode } from './tailnet-node.ts';

/** The time between two pings. */
const EVERY_MS = 100;

/**
 * Pings a peer again and again, until one answers. For a new peer: it drops packets until it knows this node. Measures only
 * the ping that is answered. Rejects as `TailnetNode.ping` does.
 */
export async function firstPing(
  node: Pick<TailnetNode, 'ping'>,
  id: Uint8Array,
  { signal }: { signal?: AbortSignal } = {},
): Promise<PingResult> {
  const ended = new AbortController();
  const until = { signal: signal ? AbortSignal.any([signal, ended.signal]) : ended.signal };
  const { promise, resolve } = Promise.withResolvers<PingResult>();
  const again = setInterval(() => node.ping(id, until).then(resolve, () => {}), EVERY_MS);
  try {
    return await Promise.race([node.ping(id, until), promise]);
  } finally {
    clearInterval(again);
    ended.abort();
  }
}
