import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

interface CollectGarbage {
  (): void;
  (how: { type: 'major'; execution: 'async'; flavor: 'last-resort' }): Promise<void>;
}

let known: CollectGarbage | undefined;

/** V8's collector, without the option that gives it to all code of the process. */
export function garbageCollector(): CollectGarbage {
  if (!known) {
    // a new context has the function as a global; this one, and all code in it, does not
    setFlagsFromString('--expose-gc');
    known = runInNewContext('gc') as CollectGarbage;
    setFlagsFromString('--no-expose-gc');
  }
  return known;
}
