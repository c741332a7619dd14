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

/** Formats an id of this protocol (16 raw bytes) as text. */
export function uuidText(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString('hex').padEnd(32, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

export function uuidBytes(id: string): Uint8Array {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}
