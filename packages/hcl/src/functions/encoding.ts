import { createHash } from 'node:crypto';
import { count, EvaluationError, fromJson, jsonText, list, object, toText, type Value } from '../values.ts';
import type { Fn, Meter } from './types.ts';

const one = (run: (text: string) => Value): Fn => ({ least: 1, run: (a) => run(toText(a!)) });
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
      if (row.length !== head.length) throw new EvaluationError('A row of the CSV has another number of fields.');
      return object(head.map((name, i) => [name, row[i]!] as const));
    }),
  );
}

export const encoding: Record<string, Fn> = {
  base64encode: one((text) => Buffer.from(text).toString('base64')),
  base64decode: one(base64),
  jsonencode: { least: 1, nulls: true, run: (v) => jsonText(v!) },
  jsondecode: one(json),
  urlencode: one(urlEncode),
  csvdecode: { least: 1, metered: (meter, text) => csv(meter, toText(text!)) },
  md5: hash('md5', 'hex'),
  sha1: hash('sha1', 'hex'),
  sha256: hash('sha256', 'hex'),
  sha512: hash('sha512', 'hex'),
  base64sha256: hash('sha256', 'base64'),
  base64sha512: hash('sha512', 'base64'),
};
