// How long PostgreSQL lets a transaction last whose server hangs or is gone.
import type { Tx } from './connect.ts';

/**
 * PostgreSQL ends a transaction that waits this long for its server, in ms. A server that hangs, or whose machine is
 * gone, keeps its connections open: only this releases its locks.
 */
export const SILENT_MS = 2_000;

/** In a SELECT: makes the locks of this transaction end soon after its server hangs. */
export const endWhenSilent = (tx: Tx) =>
  tx`set_config('idle_in_transaction_session_timeout', ${String(SILENT_MS)}, true)`;

/** The longest that a short transaction takes, in ms. */
const SHORT_MS = 3_000;

/**
 * In a SELECT: the same for a short transaction, which ends in any case after a few seconds. A server can hang between the
 * messages of one statement, which PostgreSQL does not count as silence. Releases before 17 cannot do this.
 */
export const endShortly = (tx: Tx) => tx`${endWhenSilent(tx)},
  CASE WHEN current_setting('server_version_num')::int >= 170000
    THEN set_config('transaction_timeout', ${String(SHORT_MS)}, true) END`;
