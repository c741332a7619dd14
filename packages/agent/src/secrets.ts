// Secrets of the workspace's owner, from the manifest: environment variables of everything that the agent starts, and
// files. The server announces changes through the service `secrets`, and the agent then fetches them again.

import { constants } from 'node:fs';
import { open, readFile, stat } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import { ensureDirectory, errorText, type Logger } from '@ropewalk/kit';
import type { Service } from './services/service.ts';
import type { Manifest } from './wire-types.ts';

type Secret = Manifest['secrets'][number];

/** Directories and files are the account's alone. */
const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;
/** Opening a pipe must not wait for its reader. */
const FLAGS = constants.O_WRONLY | constants.O_CREAT | (constants.O_NONBLOCK ?? 0);

/** The variables of secrets. Values are used as they are: they may contain `$`. */
export function secretVariables(secrets: readonly Secret[]): Record<string, string> {
  return Object.fromEntries(
    secrets
      .filter(({ envName }) => envName !== '')
      .map(({ envName, value }) => [envName, Buffer.from(value).toString()]),
  );
}

/**
 * Writes the files of secrets. Existing files keep their permissions and get the new content, and files of removed secrets
 * stay. The log has what could not be written.
 */
export async function writeSecretFiles(secrets: readonly Secret[], home: string, log: Logger): Promise<void> {
  const written = new Map<string, string>();
  for (const { filePath, value } of secrets) {
    if (filePath === '') continue;
    const path = normalize(filePath.startsWith('~/') ? join(home, filePath.slice(2)) : filePath);
    const other = written.get(path);
    if (other !== undefined) log.warn('two secrets have the same file', { path, first: other, second: filePath });
    written.set(path, filePath);
    await writeSecretFile(path, value).catch((err) =>
      log.warn('could not write the file of a secret', { path, err: errorText(err) }),
    );
  }
}

async function writeSecretFile(path: string, value: Uint8Array): Promise<void> {
  await ensureDirectory(dirname(path), { mode: DIRECTORY_MODE });
  const known = await stat(path).catch(() => undefined);
  if (known && !known.isFile()) throw new Error('it is not a regular file');
  if (known?.size === value.length && (await readFile(path).catch(() => undefined))?.equals(value)) return;
  const file = await open(path, FLAGS, FILE_MODE);
  try {
    await file.truncate();
    await file.writeFile(value);
  } finally {
    await file.close();
  }
}

/** `{service: 'secrets'}`: the secrets of the owner changed. Ends when the agent has fetched them. */
export function secretsService(refresh: () => Promise<void>): Service {
  let waiting: Promise<void> | undefined;
  let running = Promise.resolve();
  // changes during a fetch cause one more
  const refreshed = () => {
    waiting ??= running.then(() => {
      waiting = undefined;
      const work = refresh();
      running = work.catch(() => {});
      return work;
    });
    return waiting;
  };
  return async ({ accept }) => {
    await refreshed();
    const stream = accept();
    stream.on('error', () => {});
    stream.end();
    stream.resume();
  };
}
