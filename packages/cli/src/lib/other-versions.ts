import { type Io, note } from '../framework/io.ts';

/** A daemon or an agent. */
interface Versioned {
  name: string;
  /** Empty if it has never connected. */
  version: string;
}

/** Maximum number of names in a note. After an upgrade of the server, everything in a list may have another version. */
const MAX_NAMES = 10;

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
  // two agents of a workspace have its name
  const names = [...new Set(others.map(({ name, version }) => `${name} (${version})`))];
  if (names.length === 0) return;
  const more = names.length - MAX_NAMES;
  const shown = names.slice(0, MAX_NAMES).join(', ') + (more > 0 ? ` and ${more} more` : '');
  note(io, `Not the server's version, ${serverVersion}: ${advice(shown)}`);
}
