import type { DrpcClient } from '@ropewalk/wire/drpc';
import type { Agent, Manifest } from '@ropewalk/wire/proto/agent';

export type AgentClient = DrpcClient<typeof Agent>;
export type { Manifest };

/** Part of one connection. Runs until the signal aborts. Its failure ends the connection. */
export type Routine = (client: AgentClient, signal: AbortSignal) => Promise<void>;

export interface WireDuration {
  seconds: bigint;
  nanos: number;
}

export function durationMs(duration: WireDuration | undefined): number {
  return duration ? Number(duration.seconds) * 1_000 + duration.nanos / 1e6 : 0;
}
