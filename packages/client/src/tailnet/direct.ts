// The direct path to an agent over the tailnet. A session leaves it if packets go over a relay: the server does
// the same with less work.
import type { Duplex } from 'node:stream';
import { DIRECT_PORT } from '@ropewalk/wire/direct-port';
import type { Client } from '../client.ts';
import type { Path, PathSource } from '../paths/path.ts';
import { joinTailnet, type TailnetMember } from './member.ts';

const FIRST_RETRY_MS = 5 * 60_000;

class DirectPath implements Path {
  readonly carriesBulk = false;
  readonly isProvenByBytes = false;
  readonly measured: readonly number[] = [];
  readonly end = undefined;
  readonly #member: TailnetMember;
  #endpoint = '';

  constructor(member: TailnetMember) {
    this.#member = member;
  }

  get name(): string {
    return `direct ${this.#endpoint}`;
  }

  async probe(signal: AbortSignal): Promise<number | undefined> {
    const { ms, endpoint } = await this.#member.ping(signal);
    if (endpoint === undefined) return undefined;
    this.#endpoint = endpoint;
    return ms;
  }

  connect(signal: AbortSignal): Promise<Duplex> {
    return this.#member.connect(DIRECT_PORT, signal);
  }

  close(): Promise<void> {
    return this.#member.close();
  }
}

export const directSource = (client: Client, agentId: string): PathSource => ({
  firstRetryMs: FIRST_RETRY_MS,
  join: async ({ signal }) => new DirectPath(await joinTailnet(client, agentId, { signal, isOnlyDirect: true })),
});
