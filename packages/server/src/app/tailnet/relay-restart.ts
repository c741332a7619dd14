/** What a relay that stops announces, in ms: when clients come back, and how long they try. */
export const RELAY_RESTART = { reconnectInMs: 1_000, tryForMs: 60_000 };
