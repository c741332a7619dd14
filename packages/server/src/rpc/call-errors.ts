import { isAppError, type Logger } from '@ropewalk/kit';
import { BoundError } from '@ropewalk/wire/bounds';
import { DrpcError } from '@ropewalk/wire/drpc';
import { JOB_ERRORS } from '@ropewalk/wire/job-errors';
import { describeUnexpected } from '../app/context/unexpected.ts';
import { NotOwned } from '../app/job/complete.ts';
import { INTERNAL_ERROR, isPgError, isRejectedData } from '../db/connect.ts';

interface Described {
  code: number;
  message: string;
}

/** Codes of errors that do not depend on the call: another attempt may succeed. */
const PASSING = new Set(['unavailable', 'timeout', 'canceled', 'rate_limited']);

/**
 * What a caller receives for an error of its call. Texts of the database stay in the log. `coded`: the caller is a daemon
 * of ours and knows the codes of JOB_ERRORS.
 */
export function describeCallError(log: Logger, { coded = false } = {}): (err: unknown, method: string) => Described {
  return (err, method) => {
    if (err instanceof DrpcError) return { code: err.code, message: err.message };
    if (err instanceof BoundError) return { code: coded ? JOB_ERRORS.rejected : 0, message: err.message };
    const { code, message, detail } = describeUnexpected(err, log, { method });
    const text = isAppError(err) || detail === undefined ? message : `${message} ${detail}`;
    return { code: coded ? codeOf(err, code) : 0, message: text };
  };
}

function codeOf(err: unknown, code: string): number {
  if (err instanceof NotOwned) return JOB_ERRORS.notOwned;
  // the result itself may cause it, and the daemon's heartbeats would keep the job for ever
  if (isPgError(err, INTERNAL_ERROR)) return JOB_ERRORS.failed;
  if (PASSING.has(code)) return 0;
  return code === 'internal' && !isRejectedData(err) ? JOB_ERRORS.failed : JOB_ERRORS.rejected;
}
