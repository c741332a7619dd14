import { dirname } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { AppError } from '@ropewalk/kit/errors';
import { behindLinks, fromByteText, readBytes, replaceFile, toByteText } from '../config-ssh/file.ts';

export type JsonObject = Record<string, unknown>;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The object of a field, which is made if the field has something else. */
export function objectIn(parent: JsonObject, name: string): JsonObject {
  const value = Object.hasOwn(parent, name) ? parent[name] : undefined;
  const found = isObject(value) ? value : {};
  Object.defineProperty(parent, name, { value: found, enumerable: true, configurable: true, writable: true });
  return found;
}

/**
 * Changes a JSON file of another program and keeps everything else in it. The file may be missing or empty.
 * @throws AppError `invalid` if it holds something else than a JSON object. It then stays as it is
 */
export async function mergeJson(path: string, change: (content: JsonObject) => Promise<void>): Promise<void> {
  await mergeText(path, async (before) => {
    let content: unknown = {};
    try {
      if (before.trim() !== '') content = JSON.parse(before.replace(/^\uFEFF/, ''));
    } catch (err) {
      throw new AppError('invalid', `${path} is not valid JSON. Correct it and try again.`, { cause: err });
    }
    if (!isObject(content)) throw new AppError('invalid', `${path} must hold a JSON object. Correct it and try again.`);
    await change(content);
    return `${JSON.stringify(content, null, 2)}\n`;
  });
}

/** Replaces the text of a file, which may be missing. */
export async function mergeText(path: string, change: (text: string) => string | Promise<string>): Promise<void> {
  const file = behindLinks(path);
  const before = fromByteText(readBytes(file));
  const after = await change(before);
  if (before === after) return;
  ensureDirectorySync(dirname(file), { mode: 0o700 });
  replaceFile(file, toByteText(after));
}
