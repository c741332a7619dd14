/** A property on the answer itself: a WeakMap would keep each answer until a full garbage collection. */
const BODY = Symbol('body');

/** In characters. Node.js sends a short text and its headers in one piece. Bytes take a second one, longer texts a conversion. */
const MAX_TEXT = 4_096;

interface Shared {
  [BODY]?: string | Buffer | null;
}

/** Marks an answer that several requests share and nobody changes. It is serialized once. */
export function sharedAnswer<T extends object>(answer: T): T {
  return Object.defineProperty(answer, BODY, { value: null, writable: true });
}

/** The body of a shared answer, which `serialize` creates on the first call. Undefined for any other answer. */
export function sharedBody(answer: unknown, serialize: (answer: object) => string): string | Buffer | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  const shared = answer as Shared;
  if (shared[BODY] === undefined) return undefined;
  if (shared[BODY] === null) {
    const text = serialize(answer);
    shared[BODY] = text.length > MAX_TEXT ? Buffer.from(text) : text;
  }
  return shared[BODY];
}
