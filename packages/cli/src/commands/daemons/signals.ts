type Listener = (name: NodeJS.Signals) => void;

const current = new Map<NodeJS.Signals, Listener>();
const dispatch: Listener = (name) => current.get(name)?.(name);

/**
 * Calls back with every one of these signals. A later call replaces the listener of an earlier one. The process listens all
 * the time: Node.js would lose a signal that came while the process was busy, if nobody listened for one moment before it
 * is delivered.
 */
export function onEverySignal(names: readonly NodeJS.Signals[], listener: Listener): void {
  for (const name of names) {
    const isNew = !current.has(name);
    current.set(name, listener);
    if (!isNew) continue;
    const others = process.listeners(name);
    process.on(name, dispatch);
    for (const other of others) process.off(name, other as Listener);
  }
}
