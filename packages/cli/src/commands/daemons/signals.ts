/** Resolves with the first of these signals; the next one ends the process at once. */
export function onSignals(names: readonly NodeJS.Signals[]): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let count = 0;
    onEverySignal(names, (name) => {
      if (++count > 1) process.exit(1);
      resolve(name);
    });
  });
}

/** Calls back with every one of these signals. */
export function onEverySignal(names: readonly NodeJS.Signals[], listener: (name: NodeJS.Signals) => void): void {
  for (const name of names) {
    process.removeAllListeners(name);
    process.on(name, listener);
  }
}
