import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { compile } from '@ropewalk/kit/re2';
import { EvaluationError, set, toText, UNKNOWN, type Value } from '../values.ts';
import type { Files, Fn, Meter } from './types.ts';

/** Returns a path as the keys of `Files` are written. Undefined: it is outside the template. */
function inside(path: string): string | undefined {
  if (path.includes('\0')) return undefined;
  const normal = posix.normalize(path).replace(/\/$/, '');
  return normal.startsWith('/') || normal === '..' || normal.startsWith('../') ? undefined : normal;
}

export function bytesOf(files: Files, meter: Meter, path: string): Uint8Array {
  const at = inside(path);
  const data = at === undefined ? undefined : files.read(at);
  if (!data) throw new EvaluationError(`The template has no file ${JSON.stringify(path)}.`);
  meter.steps(1 + Math.floor(data.length / 64));
  return data;
}

export function textOf(files: Files, meter: Meter, path: string): string {
  const data = bytesOf(files, meter, path);
  meter.room(data.length);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw new EvaluationError(`The file ${JSON.stringify(path)} is not UTF-8 text.`);
  }
}

const ofBytes = (run: (data: Uint8Array) => Value): Fn => ({
  least: 1,
  reads: (files, meter, path) => run(bytesOf(files, meter, toText(path!))),
});
const hash = (algorithm: string, encoding: 'hex' | 'base64'): Fn =>
  ofBytes((data) => createHash(algorithm).update(data).digest(encoding));

/** Converts a pattern such as `**\/{a,b}?.tf` to a regular expression. */
function globExpression(pattern: string): string {
  let depth = 0;
  const parts = pattern.match(/\*\*\/|\*\*|\*|\?|\[[^\]]*\]|\\.|[{},]|[^*?[\\{},]+|./gsu) ?? [];
  const out = parts.map((part) => {
    if (part === '**/') return '(?:[^/]*/)*';
    if (part === '**') return '.*';
    if (part === '*') return '[^/]*';
    if (part === '?') return '[^/]';
    if (part === '{') return ++depth && '(?:';
    if (part === '}' && depth > 0) return depth-- && ')';
    if (part === ',' && depth > 0) return '|';
    if (/^\[.+\]$/s.test(part)) return part.replace(/^\[!/, '[^');
    const plain = part.startsWith('\\') && part.length > 1 ? part.slice(1) : part;
    return plain.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  });
  return `^${out.join('')}$`;
}

function fileset(files: Files, meter: Meter, path: string, pattern: string): Value {
  const root = inside(path);
  if (root === undefined) return set([]);
  const prefix = root === '.' ? '' : `${root}/`;
  let matches: (text: string) => boolean;
  try {
    const expression = compile(globExpression(pattern));
    matches = (text) => expression.test(text);
  } catch {
    throw new EvaluationError(`The pattern ${JSON.stringify(pattern)} is invalid.`);
  }
  const found: string[] = [];
  for (const file of files.paths()) {
    meter.steps(1 + Math.floor(file.length / 8));
    if (file.startsWith(prefix) && matches(file.slice(prefix.length))) found.push(file.slice(prefix.length));
  }
  return set(found);
}

/** Returns the last part of a path, as Go does. */
function basename(path: string): string {
  if (path === '') return '.';
  return posix.basename(path) || '/';
}

/** Returns all but the last part of a path, as Go does. */
function dirname(path: string): string {
  const normal = posix.normalize(path.slice(0, path.lastIndexOf('/') + 1));
  return normal === '/' ? '/' : normal.replace(/\/$/, '');
}

/** Functions about files of the template. */
export const files: Record<string, Fn> = {
  file: { least: 1, reads: (from, meter, path) => textOf(from, meter, toText(path!)) },
  filebase64: ofBytes((data) => Buffer.from(data).toString('base64')),
  fileexists: {
    least: 1,
    reads: (from, _meter, path) => {
      const at = inside(toText(path!));
      return at !== undefined && from.read(at) !== undefined;
    },
  },
  fileset: { least: 2, reads: (from, meter, path, pattern) => fileset(from, meter, toText(path!), toText(pattern!)) },
  filemd5: hash('md5', 'hex'),
  filesha1: hash('sha1', 'hex'),
  filesha256: hash('sha256', 'hex'),
  filesha512: hash('sha512', 'hex'),
  filebase64sha256: hash('sha256', 'base64'),
  filebase64sha512: hash('sha512', 'base64'),
  basename: { least: 1, run: (path) => basename(toText(path!)) },
  dirname: { least: 1, run: (path) => dirname(toText(path!)) },
  // The home directory is that of the machine where Terraform runs.
  pathexpand: { least: 1, run: (path) => (/^~(\/|$)/.test(toText(path!)) ? UNKNOWN : toText(path!)) },
};
