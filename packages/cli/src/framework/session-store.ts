// Where the session token is: in a file of the config directory, or in the keyring, which a mark there says. Other programs,
// such as extensions of editors, have their own config directories and read the file.

import { join } from 'node:path';
import { AppError } from '@ropewalk/kit/errors';
import { readConfig, removeConfig, writeConfig } from './config-dir.ts';
import type { Keyring } from './keyring.ts';

const FILE = 'session';
const MARK = 'session-store';
const IN_KEYRING = 'keyring';

export interface SessionPlace {
  configDir: string;
  env: NodeJS.ProcessEnv;
}

const keyring = async (env: NodeJS.ProcessEnv): Promise<Keyring> => (await import('./keyring.ts')).systemKeyring(env);

/** The token for this server. Empty if nobody is logged in. @throws AppError if it is in a keyring that cannot be used */
export async function readSession({ configDir, env }: SessionPlace, url: string): Promise<string> {
  const token = readConfig(join(configDir, FILE));
  if (token !== '' || url === '' || readConfig(join(configDir, MARK)) !== IN_KEYRING) return token;
  return (await keyring(env)).read(url);
}

/** Throws AppError `unavailable` if the keyring of this machine cannot be used. */
export async function checkKeyring({ env }: SessionPlace, url: string): Promise<void> {
  await (await keyring(env)).read(url);
}

export async function writeSession(
  place: SessionPlace,
  { url, token, inKeyring }: { url: string; token: string; inKeyring: boolean },
): Promise<void> {
  const { configDir, env } = place;
  if (!inKeyring) {
    removeConfig(join(configDir, MARK));
    writeConfig(join(configDir, FILE), token);
    return;
  }
  await (await keyring(env)).write(url, token);
  writeConfig(join(configDir, MARK), IN_KEYRING);
  removeConfig(join(configDir, FILE));
}

/** Forgets the token. Returns why it is still in the keyring, if it is. */
export async function removeSession({ configDir, env }: SessionPlace, url: string): Promise<AppError | undefined> {
  const isInKeyring = readConfig(join(configDir, MARK)) === IN_KEYRING;
  removeConfig(join(configDir, FILE));
  removeConfig(join(configDir, MARK));
  if (!isInKeyring || url === '') return undefined;
  try {
    await (await keyring(env)).remove(url);
  } catch (err) {
    if (err instanceof AppError) return err;
    throw err;
  }
  return undefined;
}
