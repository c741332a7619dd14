/**
 * Reads answers of apps strictly: an ambiguous answer is rejected. Node's own client takes several times as long for each
 * request and accepts only sockets (docs/decisions/0016-apps.md).
 */

/** Receives an answer, in this order: head, data…, end. Or failed, once. */
export interface AnswerSink {
  /** @param headers in raw form; `length` of the body if it is known */
  head(answer: AnswerHead): void;
  data(part: Buffer): void;
  /** @param last the last part of the body, if it came with the end */
  end(last: Buffer | undefined, trailers: string[]): void;
}

export interface AnswerHead {
  status: number;
  message: string;
  headers: string[];
  length: number | undefined;
}

/** The app violates the protocol. */
export class BadAnswer extends Error {
  override name = 'BadAnswer';
}

export const MAX_HEAD = 64 * 1024;
const STATUS = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([^\r\n\0]*))?$/;
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the forbidden characters
const BAD_VALUE = /[\x00-\x08\x0a-\x1f\x7f]/;
const LENGTH = /^\d{1,15}$/;
const CHUNK = /^([0-9a-fA-F]{1,12})(?:[ \t]*;[^\r\n]*)?$/;
const CRLF = Buffer.from('\r\n');
const HEAD_END = Buffer.from('\r\n\r\n');
const NOTHING: string[] = [];
const FIRST = Buffer.from('HTTP/1.');
const OTHER = 'it does not begin with an HTTP/1.1 status line';

type State = 'idle' | 'head' | 'length' | 'size' | 'chunk' | 'chunk end' | 'trailers' | 'close';

/** Header lines as name and value in turn. Throws BadAnswer. */
function parseLines(text: string, from: number): string[] {
  const out: string[] = [];
  let at = from;
  while (at < text.length) {
    let end = text.indexOf('\r\n', at);
    if (end < 0) end = text.length;
    const line = text.slice(at, end);
    at = end + 2;
    const colon = line.indexOf(':');
    const name = line.slice(0, colon);
    // a folded line begins with white space, and no name contains that
    if (colon < 1 || !NAME.test(name)) throw new BadAnswer('a header has an invalid name');
    const value = line.slice(colon + 1).trim();
    if (BAD_VALUE.test(value)) throw new BadAnswer('a header contains control characters');
    out.push(name, value);
  }
  return out;
}

/** Parses the answers of one connection, one after the other. */
export class AnswerParser {
  #state: State = 'idle';
  #rest: Buffer | undefined;
  #left = 0;
  #sink: AnswerSink | undefined;
  #withoutBody = false;
  /** Whether the app allows another request on the connection after this answer. */
  reusable = true;

  get busy(): boolean {
    return this.#state !== 'idle';
  }

  /** Whether the head of the answer is still missing. */
  get waiting(): boolean {
    return this.#state === 'head';
  }

  /** Sends the next answer to `sink`. An answer to HEAD has no body, whatever its headers say. */
  expect(sink: AnswerSink, method: string): void {
    this.#sink = sink;
    this.#withoutBody = method === 'HEAD';
    this.#state = 'head';
  }

  /** Parses the next bytes. Throws BadAnswer, after which the connection is unusable. */
  take(part: Buffer): void {
    let bytes = part;
    if (this.#rest) {
      bytes = Buffer.concat([this.#rest, part]);
      this.#rest = undefined;
    }
    while (bytes.length > 0) {
      const left = this.#step(bytes);
      if (left === undefined) {
        this.#rest = bytes;
        return;
      }
      bytes = left;
    }
  }

  /** The app has ended the connection. Returns whether that completes its answer. */
  ended(): boolean {
    if (this.#state !== 'close') return this.#state === 'idle';
    this.#finish(undefined, NOTHING);
    return true;
  }

  /** The rest of the bytes after one step. Undefined if more are needed. */
  #step(bytes: Buffer): Buffer | undefined {
    switch (this.#state) {
      case 'idle':
        throw new BadAnswer('it sent data without a request');
      case 'head':
        return this.#head(bytes);
      case 'length': {
        const part = bytes.length > this.#left ? bytes.subarray(0, this.#left) : bytes;
        this.#left -= part.length;
        if (this.#left === 0) this.#finish(part, NOTHING);
        else this.#sink!.data(part);
        return bytes.subarray(part.length);
      }
      case 'close':
        this.#sink!.data(bytes);
        return bytes.subarray(bytes.length);
      case 'size': {
        const end = bytes.indexOf(CRLF);
        if (end < 0 || end > 1_024) return tooLong(bytes, 1_024);
        const size = CHUNK.exec(bytes.toString('latin1', 0, end))?.[1];
        if (size === undefined) throw new BadAnswer('a chunk has an invalid size');
        this.#left = Number.parseInt(size, 16);
        this.#state = this.#left === 0 ? 'trailers' : 'chunk';
        return bytes.subarray(end + 2);
      }
      case 'chunk': {
        const part = bytes.length > this.#left ? bytes.subarray(0, this.#left) : bytes;
        this.#left -= part.length;
        if (this.#left === 0) this.#state = 'chunk end';
        this.#sink!.data(part);
        return bytes.subarray(part.length);
      }
      case 'chunk end':
        if (bytes.length < 2) return undefined;
        if (bytes[0] !== 13 || bytes[1] !== 10) throw new BadAnswer('a chunk is longer than its size');
        this.#state = 'size';
        return bytes.subarray(2);
      case 'trailers':
        return this.#trailers(bytes);
    }
  }

  #head(bytes: Buffer): Buffer | undefined {
    const end = bytes.indexOf(HEAD_END);
    if (end < 0 || end > MAX_HEAD) {
      // a program with another protocol may never send the end of a head
      if (!bytes.subarray(0, 7).equals(FIRST.subarray(0, bytes.length))) throw new BadAnswer(OTHER);
      return tooLong(bytes, MAX_HEAD);
    }
    const text = bytes.toString('latin1', 0, end);
    const line = text.indexOf('\r\n');
    const first = STATUS.exec(line < 0 ? text : text.slice(0, line));
    if (!first) throw new BadAnswer(OTHER);
    const status = Number(first[2]);
    const headers = line < 0 ? [] : parseLines(text, line + 2);
    const rest = bytes.subarray(end + 4);
    if (status === 101) throw new BadAnswer('it switched protocols, but the request did not ask for that');
    // provisional: the final answer follows
    if (status < 200) return rest;
    this.#begin(status, first[3] ?? '', headers, first[1] === '0');
    return rest;
  }

  #begin(status: number, message: string, headers: string[], old: boolean): void {
    let length: number | undefined;
    let chunked = false;
    let close = old;
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!;
      // the three headers that matter here, by their lengths
      if (name.length !== 14 && name.length !== 17 && name.length !== 10) continue;
      const value = headers[i + 1]!;
      switch (name.toLowerCase()) {
        case 'content-length':
          if (length !== undefined || !LENGTH.test(value))
            throw new BadAnswer('its Content-Length is invalid or repeated');
          length = Number(value);
          break;
        case 'transfer-encoding':
          if (chunked || value.toLowerCase() !== 'chunked')
            throw new BadAnswer('its Transfer-Encoding is not supported');
          chunked = true;
          break;
        case 'connection':
          if (/(?:^|,)\s*close\s*(?:,|$)/i.test(value)) close = true;
          else if (old && /(?:^|,)\s*keep-alive\s*(?:,|$)/i.test(value)) close = false;
          break;
      }
    }
    if (chunked && (length !== undefined || old)) throw new BadAnswer('the end of its body is ambiguous');
    this.reusable = !close;
    const bodiless = this.#withoutBody || status === 204 || status === 304;
    this.#sink!.head({ status, message, headers, length: bodiless || !chunked ? length : undefined });
    if (bodiless || length === 0) this.#finish(undefined, NOTHING);
    else if (length !== undefined) {
      this.#left = length;
      this.#state = 'length';
    } else if (chunked) this.#state = 'size';
    else {
      this.reusable = false;
      this.#state = 'close';
    }
  }

  #trailers(bytes: Buffer): Buffer | undefined {
    if (bytes.length >= 2 && bytes[0] === 13 && bytes[1] === 10) {
      this.#finish(undefined, NOTHING);
      return bytes.subarray(2);
    }
    const end = bytes.indexOf(HEAD_END);
    if (end < 0 || end > MAX_HEAD) return tooLong(bytes, MAX_HEAD);
    this.#finish(undefined, parseLines(bytes.toString('latin1', 0, end), 0));
    return bytes.subarray(end + 4);
  }

  #finish(last: Buffer | undefined, trailers: string[]): void {
    const sink = this.#sink!;
    this.#sink = undefined;
    this.#state = 'idle';
    sink.end(last, trailers);
  }
}

/** Keeps bytes for the next step, up to a limit. */
function tooLong(bytes: Buffer, most: number): undefined {
  if (bytes.length > most) throw new BadAnswer(`its headers are larger than ${most / 1024} KiB`);
  return undefined;
}
