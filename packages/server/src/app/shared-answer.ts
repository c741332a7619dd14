const shared = new WeakMap<object, Buffer | undefined>();

/** Marks what several requests are answered with, unchanged: it becomes bytes once. */
export function sharedAnswer<T extends object>(answer: T): T {
  shared.set(answer, undefined);
  return answer;
}

/** The bytes of a shared answer, made by `serialize` for the first who asks; undefined for any other answer. */
export function sharedBytes(answer: unknown, serialize: (answer: object) => string): Buffer | undefined {
  if (typeof answer !== 'object' || answer === null || !shared.has(answer)) return undefined;
  let bytes = shared.get(answer);
  if (!bytes) {
    bytes = Buffer.from(serialize(answer));
    shared.set(answer, bytes);
  }
  return bytes;
}
