/** Beside the answer's own fields, which are what is written: a WeakMap would keep each answer until the whole heap is marked. */
const BYTES = Symbol('bytes');

interface Shared {
  [BYTES]?: Buffer | null;
}

/** Marks what several requests are answered with, unchanged: it becomes bytes once. */
export function sharedAnswer<T extends object>(answer: T): T {
  return Object.defineProperty(answer, BYTES, { value: null, writable: true });
}

/** The bytes of a shared answer, made by `serialize` for the first who asks; undefined for any other answer. */
export function sharedBytes(answer: unknown, serialize: (answer: object) => string): Buffer | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  const shared = answer as Shared;
  if (shared[BYTES] === undefined) return undefined;
  shared[BYTES] ??= Buffer.from(serialize(answer));
  return shared[BYTES];
}
