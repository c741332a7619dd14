/**
 * The codes of the errors with which our server answers calls of our daemons, if it offers the capability `job-errors/1`.
 * Any other code, such as 0, says that the server could not answer now, so the daemon repeats the call and keeps what it
 * has. Upstream's servers and daemons use no codes.
 */
export const JOB_ERRORS = {
  /** The job does not belong to this daemon. Nothing else ends a daemon's right to a job. */
  notOwned: 0x4a01,
  /** The server will not accept this call, however often it is repeated. */
  rejected: 0x4a02,
  /** The server failed. If it fails again and again, the cause may be the call itself. */
  failed: 0x4a03,
} as const;
