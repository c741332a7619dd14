import { JOB_ERRORS } from '@ropewalk/wire/job-errors';
import { NotOwned } from '../../app/job/complete.ts';
import { INTERNAL_ERROR, isPgError, isRejectedData } from '../../db/connect.ts';

/** Codes of errors that do not depend on the call: another attempt may succeed. */
const PASSING = new Set(['unavailable', 'timeout', 'canceled', 'rate_limited']);

/** The code of JOB_ERRORS that a daemon of ours receives for an error of its call, and 0 if it may try again. */
export function jobErrorCode(err: unknown, code: string): number {
  if (err instanceof NotOwned) return JOB_ERRORS.notOwned;
  // the result itself may cause it, and the daemon's heartbeats would keep the job for ever
  if (isPgError(err, INTERNAL_ERROR)) return JOB_ERRORS.failed;
  if (PASSING.has(code)) return 0;
  return code === 'internal' && !isRejectedData(err) ? JOB_ERRORS.failed : JOB_ERRORS.rejected;
}
