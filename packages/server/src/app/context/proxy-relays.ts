import type { WorkspaceProxyRow } from '../../db/rows.ts';

/** A workspace proxy whose relay clients and agents may use. */
export type ProxyRelay = Pick<WorkspaceProxyRow, 'name' | 'display_name' | 'region_id' | 'url'>;

/** The relays of workspace proxies, as the last health check of this server found them. One per server. */
export class ProxyRelays {
  #current: readonly ProxyRelay[] = [];
  readonly #onChange = new Set<() => void>();

  /** Replaced by another list when it changes. */
  get current(): readonly ProxyRelay[] {
    return this.#current;
  }

  set(relays: readonly ProxyRelay[]): void {
    const next = relays.map(({ name, display_name, region_id, url }) => ({ name, display_name, region_id, url }));
    if (JSON.stringify(next) === JSON.stringify(this.#current)) return;
    this.#current = next;
    for (const wake of [...this.#onChange]) wake();
  }

  /** Resolves when `current` is not `seen` any more, or when the signal aborts. */
  changedFrom(seen: readonly ProxyRelay[], signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted || this.#current !== seen) return resolve();
      const wake = () => {
        this.#onChange.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.#onChange.add(wake);
      signal.addEventListener('abort', wake, { once: true });
    });
  }
}
