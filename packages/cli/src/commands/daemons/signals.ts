/** Calls back with every one of these signals. */
export function onEverySignal(names: readonly NodeJS.Signals[], listener: (name: NodeJS.Signals) => void): void {
  for (const name of names) {
    process.removeAllListeners(name);
    process.on(name, listener);
  }
}
