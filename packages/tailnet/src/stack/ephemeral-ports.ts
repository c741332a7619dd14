/** The ports from which connections and flows begin (RFC 6335). */
const FIRST = 49_152;
const COUNT = 65_536 - FIRST;

/** A random port that is free, or undefined if all are in use. `random`: a number from 0 to 1. */
export function freeEphemeralPort(random: number, isFree: (port: number) => boolean): number | undefined {
  const start = Math.floor(random * COUNT);
  for (let i = 0; i < COUNT; i++) {
    const port = FIRST + ((start + i) % COUNT);
    if (isFree(port)) return port;
  }
  return undefined;
}
