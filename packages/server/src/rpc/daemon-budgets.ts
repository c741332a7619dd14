/**
 * What the connections of provisioner daemons may hold of the server, by the credential that they showed. Members can
 * run daemons of their own: theirs have small messages and a small budget. Who holds a provisioner key, the pre-shared
 * key or the server's own secret runs daemons for others: their states and archives may be as large as uploads.
 */
import { AppError } from '@platform/kit';
import { MAX_MESSAGE_BYTES, MessageBudget } from '@platform/wire/drpc';
import { MOST_MODULE_BYTES } from '../app/job/module-files.ts';
import type { DaemonRow } from '../db/queries/daemons.ts';

const MIB = 1024 * 1024;
/** Of a message between our own parts. */
export const OUR_MOST_MESSAGE_BYTES = 128 * MIB;

/** Bytes of unfinished and waiting messages of all connections under one credential, and how many connections. */
const PERSON = { held: 32 * MIB, connections: 20 };
const OPERATOR = { held: 4 * OUR_MOST_MESSAGE_BYTES, connections: 1_000 };
/** Bytes of all daemons together. */
const MOST_HELD_IN_ALL = 8 * OUR_MOST_MESSAGE_BYTES;

export interface DaemonBudget {
  maxMessageBytes: number;
  /** Of one connection, within those of its credential and of all. */
  budget: MessageBudget;
  /** Of module files that are on their way, within those of the credential and of all. */
  uploads: MessageBudget;
  release(): void;
}

export interface DaemonBudgets {
  /** Room for a connection. @throws AppError `rate_limited` where its credential has as many as it may. */
  reserve(daemon: Pick<DaemonRow, 'credential'>, ours: boolean): DaemonBudget;
}

export function createDaemonBudgets(): DaemonBudgets {
  const all = new MessageBudget(MOST_HELD_IN_ALL);
  const credentials = new Map<string, { budget: MessageBudget; connections: number }>();
  return {
    reserve({ credential }, ours) {
      const person = credential.startsWith('user:');
      const most = person ? PERSON : OPERATOR;
      const holder = credentials.get(credential) ?? { budget: new MessageBudget(most.held, all), connections: 0 };
      if (holder.connections >= most.connections) {
        const detail = `At most ${most.connections} daemons can be connected with one credential.`;
        throw new AppError('rate_limited', 'Too many provisioner daemons are connected.', { detail });
      }
      credentials.set(credential, holder);
      holder.connections += 1;
      const large = ours && !person;
      return {
        maxMessageBytes: large ? OUR_MOST_MESSAGE_BYTES : MAX_MESSAGE_BYTES,
        // a verdict and a checkpoint, both of the longest
        uploads: new MessageBudget(MOST_MODULE_BYTES, holder.budget),
        budget: new MessageBudget(2 * (large ? OUR_MOST_MESSAGE_BYTES : MAX_MESSAGE_BYTES), holder.budget),
        release() {
          holder.connections -= 1;
          if (holder.connections === 0) credentials.delete(credential);
        },
      };
    },
  };
}
