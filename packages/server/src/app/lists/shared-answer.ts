/** A property on the answer itself: a WeakMap would keep each answer until a full garbage collection. */
const BYTES = Symbol('bytes');

interface Shared {
  [BYTES]?: Buffer | null;
}

/** Marks an answer that several requests share and nobody changes. It is serialized once. */
export function sharedAnswer<T extends object>(answer: T): T {
  return Object.defineProperty(answer, BYTES, { value: null, writable: true });
}

/** The bytes of a shared answer, which `serialize` creates on the first call. Undefined for any other answer. */
export function sharedBytes(answer: unknown, serialize: (answer: object) => string): Buffer | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  const shared = answer as Shared;
  if (shared[BYTES] === undefined) return undefined;
  shared[BYTES] ??= Buffer.from(serialize(answer));
  return shared[BYTES];
}
