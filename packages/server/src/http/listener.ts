/** The settings of every HTTP server of this process, with TLS or without. Times are in ms. */
export const LISTENER = {
  noDelay: true,
  // the kernel finds an end that vanished, however long nothing is sent
  keepAlive: true,
  keepAliveInitialDelay: 30_000,
  keepAliveTimeout: 75_000,
  headersTimeout: 20_000,
  requestTimeout: 0,
  /** Large, because all path apps set their cookies at this one host. */
  maxHeaderSize: 64 * 1024,
} as const;
