import { type Io, note } from '../framework/io.ts';

/** A daemon or an agent. */
interface Versioned {
  name: string;
  /** Empty if it has never connected. */
  version: string;
}

/**
 * Names on stderr what runs another version than the server, which usually is an older one. Lists on stdout keep the
 * columns that scripts read. `advice` gets the names.
 */
export function noteOthers(
  io: Io,
  serverVersion: string,
  all: readonly Versioned[],
  advice: (names: string) => string,
): void {
  const others = all.filter(({ version }) => version !== '' && version !== serverVersion);
  if (others.length === 0) return;
  const names = others.map(({ name, version }) => `${name} (${version})`).join(', ');
  note(io, `Not the server's version, ${serverVersion}: ${advice(names)}`);
}
