import type { ResumableSession } from '@ropewalk/wire/resume/client';
import type { Client } from '../client.ts';
import { AgentPaths } from './reach.ts';

const known = new WeakMap<Client, Map<string, AgentPaths>>();

/** A measured path, named as in Tunnel, and its round trip in ms. */
export interface MeasuredPath {
  path: string;
  ms: number;
}

/** Where a session is. */
export interface KeptSession {
  /** As in Tunnel. */
  path(): string;
  /** What is known of all paths, the server first. */
  paths(): MeasuredPath[];
}

/** Keeps a session on the better path to its agent. Loads what the paths need. */
export async function keepOnBetterPath(
  client: Client,
  agentId: string,
  session: ResumableSession,
  { direct, proxy, onPath }: { direct: boolean; proxy: boolean; onPath?: ((path: string) => void) | undefined },
): Promise<KeptSession> {
  const [directPaths, proxyPaths] = await Promise.all([
    direct ? import('../tailnet/direct.ts') : undefined,
    proxy ? import('./proxy.ts') : undefined,
  ]);
  if (session.stream.destroyed) return { path: () => '', paths: () => [] };
  const ofClient = known.get(client) ?? new Map<string, AgentPaths>();
  known.set(client, ofClient);
  const paths = ofClient.get(agentId) ?? new AgentPaths(() => ofClient.delete(agentId));
  ofClient.set(agentId, paths);
  const placed = paths.add(session, onPath);
  if (directPaths) paths.offer('direct', () => directPaths.directSource(client, agentId));
  if (proxyPaths) paths.offer('proxy', () => proxyPaths.proxySource(client, agentId));
  return {
    path: () => placed.path,
    paths: () => [
      ...(Number.isFinite(placed.serverMs) ? [{ path: '', ms: placed.serverMs }] : []),
      ...paths.measured(),
    ],
  };
}
