// The agent while it is in the tailnet: a node with fresh keys, a network stack with the agent's services, and its side of
// the coordinator, on the agent's own connection.
import { type Logger, systemClock } from '@ropewalk/kit';
import { addressOf, nodeIdOf, SERVICE_PREFIX, TAILNET_PREFIX } from '@ropewalk/tailnet/address';
import { type ControlConnection, CoordinatorClient } from '@ropewalk/tailnet/coordinator/client';
import { type DialRelayOptions, regionDialer, regionMeasurer } from '@ropewalk/tailnet/derp/dial';
import type { RelayRegion } from '@ropewalk/tailnet/derp/map';
import { nodeWithStack } from '@ropewalk/tailnet/node/node-with-stack';
import type { TailnetNode } from '@ropewalk/tailnet/node/tailnet-node';
import type { Stack } from '@ropewalk/tailnet/stack/stack';
import type { AgentOptions } from '../options.ts';
import type { Workspace } from '../workspace.ts';
import { servePorts } from './ports.ts';
import type { TailnetServices } from './services.ts';

/** How often the agent checks whether it has clients, in ms. */
const CHECK_MS = 30_000;

export interface MemberOptions {
  options: AgentOptions;
  workspace: Workspace;
  services: TailnetServices;
  log: Logger;
  /** How long to stay without clients, in ms. */
  idleMs: number;
  /** Leaves immediately when it aborts. */
  signal: AbortSignal;
  /** The connection to the server. Rejects when the signal aborts. */
  dial(signal: AbortSignal): Promise<ControlConnection>;
  /** Whether the server asked since the last call. */
  wasAsked(): boolean;
}

/** Joins the tailnet, and resolves after it has left. */
export async function joinTailnet(member: MemberOptions): Promise<void> {
  const { options, workspace, services, log, signal } = member;
  const { agentId, disableDirectConnections, derpForceWebsockets } = workspace.manifest;
  const addresses = [addressOf(TAILNET_PREFIX, agentId), addressOf(SERVICE_PREFIX, agentId)];
  const { node, stack } = nodeWithStack({
    ...{ addresses, log, id: nodeIdOf(agentId) },
    ...{ blockDirect: disableDirectConnections, forceWebSockets: derpForceWebsockets },
    dial: async (region, how) => regionDialer(await relayOptions(options, region))(region, how),
    measure: async (region, how) => regionMeasurer(await relayOptions(options, region))(region, how),
  });
  const serverUrl = options.url;
  const coordinator = new CoordinatorClient({
    node,
    role: 'agent',
    serverUrl,
    log,
    dial: (how) => member.dial(how.signal),
  });
  const stop = servePorts({ stack, node, services, workspace, log });
  member.wasAsked();
  try {
    void coordinator.run();
    await untilUnused(member, node, stack);
  } finally {
    // the server's end of the call comes with the end of the connection
    if (!signal.aborted) await coordinator.close();
    else void coordinator.close();
    stop();
    stack.close();
    node.close();
  }
}

/** What the agent sends to its own server is not for relays of others. */
async function relayOptions(
  { tls, headers }: AgentOptions,
  { isEmbedded }: RelayRegion,
): Promise<Pick<DialRelayOptions, 'tls' | 'headers'>> {
  if (!isEmbedded) return {};
  return { ...(tls && { tls: tls as DialRelayOptions['tls'] & object }), ...(headers && { headers: await headers() }) };
}

/** Resolves when no client has known this node for a while, or when the signal aborts. */
async function untilUnused(
  { idleMs, signal, wasAsked }: MemberOptions,
  node: TailnetNode,
  stack: Stack,
): Promise<void> {
  let usedAt = systemClock.monotonic();
  while (!signal.aborted) {
    await systemClock.sleep(Math.min(CHECK_MS, idleMs), signal).catch(() => {});
    const now = systemClock.monotonic();
    if (wasAsked() || node.ids.length > 0 || stack.stats.connections > 0) usedAt = now;
    else if (now - usedAt >= idleMs) return;
  }
}
