import { constants, createHash, privateDecrypt } from 'node:crypto';
import { ownValue } from '@ropewalk/kit/own-value';
import { count, EvaluationError, fromJson, jsonText, list, object, toText, type Value } from '../values.ts';
import type { Fn, Meter } from './types.ts';

const one = (run: (text: string) => Value): Fn => ({ least: 1, run: (a) => run(toText(a!)) });
const two = (run: (text: string, other: string) => Value): Fn => ({
  least: 2,
  run: (a, b) => run(toText(a!), toText(b!)),
});
const hash = (algorithm: string, encoding: 'hex' | 'base64'): Fn =>
  one((text) => createHash(algorithm).update(text).digest(encoding));

function base64(text: string): string {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text))
    throw new EvaluationError('The string is not valid base64.');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(text, 'base64'));
  } catch {
    throw new EvaluationError('The decoded base64 is not UTF-8 text.');
  }
}

/** The limit of JSON text. A few characters can create an array or an object of a hundred bytes. */
const MAX_JSON = 1024 * 1024;

function json(text: string): Value {
  if (text.length > MAX_JSON) throw new EvaluationError(`The JSON has more than ${count(MAX_JSON)} characters.`);
  try {
    return fromJson(JSON.parse(text));
  } catch (err) {
    if (err instanceof EvaluationError) throw err;
    throw new EvaluationError('The string is not valid JSON.');
  }
}

/** Escapes a query as Go does: a space becomes a plus. */
const urlEncode = (text: string): string =>
  encodeURIComponent(text.toWellFormed())
    .replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');

function csvRows(meter: Meter, text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let at = 0;
  const field = /"([^"]*(?:""[^"]*)*)"|([^",\r\n]*)/y;
  while (at < text.length) {
    meter.steps(1);
    field.lastIndex = at;
    const match = field.exec(text);
    if (!match) throw new EvaluationError('The string is not valid CSV.');
    row.push(match[1]?.replaceAll('""', '"') ?? match[2]!);
    at = field.lastIndex;
    if (text[at] === ',') {
      at++;
      if (at === text.length) row.push('');
      continue;
    }
    const end = /\r?\n|$/y;
    end.lastIndex = at;
    const line = end.exec(text);
    if (!line) throw new EvaluationError('The string is not valid CSV.');
    at += line[0].length;
    if (row.length > 1 || row[0] !== '') rows.push(row);
    row = [];
  }
  return row.length > 0 ? [...rows, row] : rows;
}

function csv(meter: Meter, text: string): Value {
  const [head, ...rows] = csvRows(meter, text);
  if (!head) throw new EvaluationError('The CSV has no header.');
  return list(
    rows.map((row) => {
      if (row.length !== head.length)
        throw new EvaluationError('A row of the CSV has more or fewer fields than the header.');
      return object(head.map((name, i) => [name, row[i]!] as const));
    }),
  );
}

/** The characters of a single-byte encoding, by their code. */
function singleByte(decoder: TextDecoder): (string | undefined)[] {
  return Array.from({ length: 256 }, (_, code) => {
    const character = decoder.decode(Uint8Array.of(code));
    return character === '\ufffd' ? undefined : character;
  });
}

function decoderOf(encoding: string): TextDecoder {
  try {
    return new TextDecoder(encoding, { ignoreBOM: true, fatal: true });
  } catch {
    throw new EvaluationError(`The text encoding ${JSON.stringify(encoding)} is not supported here.`);
  }
}

function encodeText(text: string, encoding: string): Buffer {
  const name = decoderOf(encoding).encoding;
  if (name === 'utf-8') return Buffer.from(text);
  const units = Buffer.from(text, 'utf16le');
  if (name === 'utf-16le') return units;
  if (name === 'utf-16be') return units.swap16();
  const codes = new Map(singleByte(new TextDecoder(encoding)).map((character, code) => [character, code]));
  return Buffer.from(
    Array.from(text, (character) => {
      const code = codes.get(character);
      if (code === undefined)
        throw new EvaluationError(`The text encoding ${encoding} has no character ${JSON.stringify(character)}.`);
      return code;
    }),
  );
}

function decodeText(base64: string, encoding: string): string {
  const decoder = decoderOf(encoding);
  try {
    return decoder.decode(Buffer.from(base64, 'base64'));
  } catch {
    throw new EvaluationError(`The decoded base64 is not text in ${encoding}.`);
  }
}

const NAMESPACES: Record<string, string> = {
  dns: '6ba7b8109dad11d180b400c04fd430c8',
  url: '6ba7b8119dad11d180b400c04fd430c8',
  oid: '6ba7b8129dad11d180b400c04fd430c8',
  x500: '6ba7b8149dad11d180b400c04fd430c8',
};

function uuidV5(namespace: string, name: string): string {
  const digits = ownValue(NAMESPACES, namespace) ?? namespace.replaceAll('-', '').toLowerCase();
  if (!/^[0-9a-f]{32}$/.test(digits))
    throw new EvaluationError(`The namespace ${JSON.stringify(namespace)} is not a UUID.`);
  const hashed = createHash('sha1').update(Buffer.from(digits, 'hex')).update(name).digest().subarray(0, 16);
  hashed[6] = (hashed[6]! & 0x0f) | 0x50;
  hashed[8] = (hashed[8]! & 0x3f) | 0x80;
  return hashed.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function rsaDecrypt(base64: string, key: string): string {
  try {
    return privateDecrypt({ key, padding: constants.RSA_PKCS1_PADDING }, Buffer.from(base64, 'base64')).toString();
  } catch {
    throw new EvaluationError('The ciphertext cannot be decrypted with this key.');
  }
}

export const encoding: Record<string, Fn> = {
  base64encode: one((text) => Buffer.from(text).toString('base64')),
  base64decode: one(base64),
  jsonencode: { least: 1, nulls: true, run: (v) => jsonText(v!) },
  jsondecode: one(json),
  urlencode: one(urlEncode),
  textencodebase64: two((text, encoding) => encodeText(text, encoding).toString('base64')),
  textdecodebase64: two(decodeText),
  uuidv5: two(uuidV5),
  rsadecrypt: two(rsaDecrypt),
  csvdecode: { least: 1, metered: (meter, text) => csv(meter, toText(text!)) },
  md5: hash('md5', 'hex'),
  sha1: hash('sha1', 'hex'),
  sha256: hash('sha256', 'hex'),
  sha512: hash('sha512', 'hex'),
  base64sha256: hash('sha256', 'base64'),
  base64sha512: hash('sha512', 'base64'),
};
