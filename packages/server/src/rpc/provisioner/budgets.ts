/**
 * The memory of the server that connections of provisioner daemons may use, for each credential. Members can run their
 * own daemons, with small messages and a small budget. Daemons with a provisioner key, the pre-shared key or the
 * server's own secret work for others, so their states and archives may be as large as uploads.
 */
import { AppError } from '@ropewalk/kit';
import { MAX_MESSAGE_BYTES, MessageBudget } from '@ropewalk/wire/drpc';
import { MAX_MODULE_BYTES } from '../../app/job/module-files.ts';
import type { DaemonRow } from '../../db/queries/daemons.ts';

const MIB = 1024 * 1024;
/** The size of a message between the server and our daemons. */
export const MAX_OWN_MESSAGE_BYTES = 128 * MIB;

/** For each credential: bytes of unfinished and waiting messages of all its connections, and the number of connections. */
const PERSON = { held: 32 * MIB, connections: 20 };
const OPERATOR = { held: 4 * MAX_OWN_MESSAGE_BYTES, connections: 1_000 };
/** The bytes of all daemons together. */
const MAX_HELD_IN_ALL = 8 * MAX_OWN_MESSAGE_BYTES;

export interface DaemonBudget {
  maxMessageBytes: number;
  /** For the messages of this connection, within the budgets of its credential and of all daemons. */
  budget: MessageBudget;
  /** For module files that are being uploaded, within the same budgets. */
  uploads: MessageBudget;
  release(): void;
}

export interface DaemonBudgets {
  /** @throws AppError `rate_limited` if the credential has as many connections as it may have */
  reserve(daemon: Pick<DaemonRow, 'credential'>, ours: boolean): DaemonBudget;
}

export function createDaemonBudgets(): DaemonBudgets {
  const all = new MessageBudget(MAX_HELD_IN_ALL);
  const credentials = new Map<string, { budget: MessageBudget; connections: number }>();
  return {
    reserve({ credential }, ours) {
      const person = credential.startsWith('user:');
      const most = person ? PERSON : OPERATOR;
      const holder = credentials.get(credential) ?? { budget: new MessageBudget(most.held, all), connections: 0 };
      if (holder.connections >= most.connections) {
        const detail = `At most ${most.connections} daemons can connect with one credential.`;
        throw new AppError('rate_limited', 'Too many provisioner daemons are connected.', { detail });
      }
      credentials.set(credential, holder);
      holder.connections += 1;
      const large = ours && !person;
      return {
        maxMessageBytes: large ? MAX_OWN_MESSAGE_BYTES : MAX_MESSAGE_BYTES,
        uploads: new MessageBudget(MAX_MODULE_BYTES, holder.budget),
        // the longest result and the longest checkpoint together
        budget: new MessageBudget(2 * (large ? MAX_OWN_MESSAGE_BYTES : MAX_MESSAGE_BYTES), holder.budget),
        release() {
          holder.connections -= 1;
          if (holder.connections === 0) credentials.delete(credential);
        },
      };
    },
  };
}
