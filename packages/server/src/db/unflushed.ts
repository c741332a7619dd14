import type { Db } from './connect.ts';

/**
 * True, for a statement whose transaction commits without waiting for the disk. If the database crashes soon after, the
 * transaction can be lost. Use it only for rows that are repeated soon, and for messages that a crash loses in any case.
 */
export const unflushed = (db: Db) => db`set_config('synchronous_commit', 'off', true) = 'off'`;
