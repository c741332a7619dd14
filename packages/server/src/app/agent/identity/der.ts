import { AppError } from '@ropewalk/kit';

/**
 * One element of DER: the first byte of its tag, and its bytes. Only short tags, which are the only ones in use here.
 */
export interface Der {
  tag: number;
  /** With tag and length. */
  whole: Buffer;
  content: Buffer;
}

const bad = () => new AppError('invalid', 'The data is not valid DER.');

/** The element at the start of the data, and the bytes after it. Throws `invalid`. */
export function readDer(data: Buffer): { element: Der; rest: Buffer } {
  const tag = data[0];
  const first = data[1];
  if (tag === undefined || first === undefined || (tag & 0x1f) === 0x1f) throw bad();
  let length = first;
  let head = 2;
  if (first >= 0x80) {
    const bytes = first & 0x7f;
    // indefinite lengths are not DER, and no element here needs more than three length bytes
    if (bytes === 0 || bytes > 3 || data.length < 2 + bytes) throw bad();
    length = data.readUIntBE(2, bytes);
    head += bytes;
  }
  if (data.length < head + length) throw bad();
  return {
    element: { tag, whole: data.subarray(0, head + length), content: data.subarray(head, head + length) },
    rest: data.subarray(head + length),
  };
}

/** The elements inside an element. Throws `invalid`. */
export function children(parent: Der): Der[] {
  const found: Der[] = [];
  for (let rest = parent.content; rest.length > 0; ) {
    const next = readDer(rest);
    found.push(next.element);
    rest = next.rest;
  }
  return found;
}

/** An object identifier in dotted form. */
export function oid(element: Der | undefined): string {
  if (element?.tag !== TAG.oid || element.content.length === 0) throw bad();
  const parts: number[] = [];
  let value = 0;
  for (const byte of element.content) {
    value = value * 128 + (byte & 0x7f);
    if (value > Number.MAX_SAFE_INTEGER) throw bad();
    if (byte & 0x80) continue;
    parts.push(value);
    value = 0;
  }
  const [first = 0, ...more] = parts;
  const root = Math.min(2, Math.floor(first / 40));
  return [root, first - root * 40, ...more].join('.');
}

export const TAG = { octets: 0x04, oid: 0x06, sequence: 0x30, set: 0x31, first: 0xa0 } as const;
