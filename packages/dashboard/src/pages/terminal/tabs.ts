/** The terminals of a page. Their ids are what the server finds them by after a reload or a restart. */

export interface TerminalTab {
  /** The `reconnect` id, a UUID. */
  id: string;
  /** A command from the address, which needs the person's consent. */
  command: string;
  /** The slug of an app that runs a command. */
  app: string;
}

/** A random UUID, also on pages over plain HTTP, where crypto.randomUUID does not exist. */
export function newTerminalId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** The part of `Storage` that is used here. */
type Store = Pick<Storage, 'getItem' | 'setItem'>;

const keyOf = (path: string) => `terminals ${path}`;

/** The tabs with which a page starts: those before a reload, or one by its address. */
export function startTabs(
  path: string,
  search: Readonly<Record<string, string>>,
  store: Store | undefined,
): TerminalTab[] {
  const { reconnect } = search;
  if (reconnect) {
    const stored = readTabs(path, store);
    if (stored.some(({ id }) => id === reconnect)) return stored;
  }
  return [{ id: reconnect || newTerminalId(), command: search.command ?? '', app: search.app ?? '' }];
}

function readTabs(path: string, store: Store | undefined): TerminalTab[] {
  try {
    const stored: unknown = JSON.parse(store?.getItem(keyOf(path)) ?? '[]');
    const texts = ['id', 'command', 'app'] as const;
    const isTab = (tab: unknown): tab is TerminalTab =>
      typeof tab === 'object' && tab !== null && texts.every((key) => typeof (tab as TerminalTab)[key] === 'string');
    return Array.isArray(stored) ? stored.filter(isTab) : [];
  } catch {
    return [];
  }
}

export function storeTabs(path: string, tabs: readonly TerminalTab[], store: Store | undefined): void {
  try {
    store?.setItem(keyOf(path), JSON.stringify(tabs));
  } catch {
    // storage is full or blocked: a reload finds only the terminal of the address
  }
}
