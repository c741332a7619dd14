import { AppError } from '@ropewalk/kit';
import { ByteCollector } from '@ropewalk/wire/byte-collector';

/** The size limit of a message. A paste may be long. */
const MAX_MESSAGE = 4 * 1024 * 1024;
const [BACKSLASH, QUOTE, OPEN, CLOSE] = [0x5c, 0x22, 0x7b, 0x7d];

/** What a viewer sends: keys, a new size, or both. */
export interface TerminalInput {
  data?: string;
  height?: number;
  width?: number;
}

/**
 * Reads consecutive JSON objects, separated at most by white space, however they are cut into pieces. `write` returns
 * the complete ones. Throws `invalid` on anything else, and cannot be used after that.
 */
export class TerminalInputParser {
  readonly #held = new ByteCollector(MAX_MESSAGE);
  #depth = 0;
  #quoted = false;
  #escaped = false;

  write(chunk: Buffer): TerminalInput[] {
    const out: TerminalInput[] = [];
    let from = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]!;
      if (this.#quoted) {
        if (this.#escaped) this.#escaped = false;
        else if (byte === BACKSLASH) this.#escaped = true;
        else if (byte === QUOTE) this.#quoted = false;
      } else if (this.#depth === 0) {
        if (byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)) continue;
        if (byte !== OPEN) throw new AppError('invalid', 'Invalid terminal input: send JSON objects.');
        this.#depth = 1;
        from = at;
      } else if (byte === QUOTE) this.#quoted = true;
      else if (byte === OPEN) this.#depth++;
      else if (byte === CLOSE && --this.#depth === 0) {
        this.#keep(chunk.subarray(from, at + 1));
        out.push(parseInput(this.#held.take()));
      }
    }
    if (this.#depth > 0) this.#keep(chunk.subarray(from));
    return out;
  }

  #keep(part: Buffer): void {
    if (this.#held.size + part.length > MAX_MESSAGE) {
      throw new AppError('too_large', `Terminal input message too large: the limit is ${MAX_MESSAGE} bytes.`);
    }
    this.#held.append(part);
  }
}

function parseInput(json: Buffer): TerminalInput {
  let value: { data?: unknown; height?: unknown; width?: unknown };
  try {
    value = JSON.parse(json.toString('utf8')) as typeof value;
  } catch {
    throw new AppError('invalid', 'Invalid terminal input: send JSON objects.');
  }
  const { data, height, width } = value;
  return {
    ...(typeof data === 'string' ? { data } : {}),
    ...(isSide(height) ? { height } : {}),
    ...(isSide(width) ? { width } : {}),
  };
}

const isSide = (value: unknown): value is number => Number.isInteger(value) && (value as number) > 0;
