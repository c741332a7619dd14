// The keyring of the operating system, through the system's own programs. Secrets go through pipes: command lines are
// visible to every user of a machine. The entry is the one that upstream's programs use: a JSON object with a credential
// for each server, by its host.

import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { AppError, errorText } from '@ropewalk/kit/errors';
import { ownValue } from '@ropewalk/kit/own-value';

const SERVICE = 'coder-v2-credentials';
const ACCOUNT = 'coder-login-credentials';
/** A person may have to unlock the keyring. */
const TIMEOUT_MS = 120_000;
/** Of a command line of `security -i`, which cuts longer ones. */
const MAX_SECURITY_LINE = 4_096;

interface Credential {
  coder_url: string;
  api_token: string;
}

/** The tokens of one person, by the servers' URLs. All methods throw AppError `unavailable` without a usable keyring. */
export interface Keyring {
  /** Empty if it has none. */
  read(url: string): Promise<string>;
  write(url: string, token: string): Promise<void>;
  remove(url: string): Promise<void>;
}

/** One secret of the keyring. */
interface Entry {
  /** Empty if it does not exist. */
  get(): Promise<string>;
  set(secret: string): Promise<void>;
  clear(): Promise<void>;
}

interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

async function run(env: NodeJS.ProcessEnv, [program, ...args]: readonly string[], input = ''): Promise<Outcome> {
  const child = spawn(program!, args, { env, timeout: TIMEOUT_MS, stdio: 'pipe' });
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', (cause: NodeJS.ErrnoException) =>
      reject(unusable(cause.code === 'ENOENT' ? `${program} is not installed` : errorText(cause), cause)),
    );
    child.once('close', (code) => resolve(code ?? 1));
  });
  // a program that fails does not read its input
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const [code, stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { code, stdout, stderr };
}

const unusable = (why: string, cause?: unknown) =>
  new AppError('unavailable', `The keyring of this machine cannot be used: ${why}.`, { cause });

const failureOf = (stderr: string) => unusable(stderr.trim().replace(/\.$/, '') || 'its program failed');

/** The Secret Service of Linux desktops, such as GNOME's or KDE's. */
function secretService(env: NodeJS.ProcessEnv): Entry {
  const attributes = ['service', SERVICE, 'account', ACCOUNT];
  return {
    async get() {
      const { code, stdout, stderr } = await run(env, ['secret-tool', 'lookup', ...attributes]);
      if (code !== 0 && stderr.trim() !== '') throw failureOf(stderr);
      return stdout;
    },
    async set(secret) {
      const label = '--label=Coder session tokens';
      const { code, stderr } = await run(env, ['secret-tool', 'store', label, ...attributes], secret);
      if (code !== 0) throw failureOf(stderr);
    },
    async clear() {
      const { code, stderr } = await run(env, ['secret-tool', 'clear', ...attributes]);
      if (code !== 0) throw failureOf(stderr);
    },
  };
}

/** The login keychain of macOS. It returns text that is not ASCII in another form, so that all is Base64. */
export function macKeychain(env: NodeJS.ProcessEnv, program = '/usr/bin/security'): Entry {
  const names = ['-s', SERVICE, '-a', ACCOUNT];
  const isMissing = ({ stderr }: Outcome) => stderr.includes('could not be found');
  return {
    async get() {
      const outcome = await run(env, [program, 'find-generic-password', ...names, '-w']);
      if (outcome.code === 0) return Buffer.from(outcome.stdout.trim(), 'base64').toString('utf8');
      if (isMissing(outcome)) return '';
      throw failureOf(outcome.stderr);
    },
    async set(secret) {
      const value = Buffer.from(secret).toString('base64');
      const line = `add-generic-password -U ${names.join(' ')} -w ${value}\n`;
      if (line.length > MAX_SECURITY_LINE) throw unusable('it has no room for another session');
      const { code, stderr } = await run(env, [program, '-i'], line);
      // in this mode its exit code is always 0
      if (code !== 0 || stderr.trim() !== '') throw failureOf(stderr);
    },
    async clear() {
      const outcome = await run(env, [program, 'delete-generic-password', ...names]);
      if (outcome.code !== 0 && !isMissing(outcome)) throw failureOf(outcome.stderr);
    },
  };
}

function parse(json: string): Record<string, Credential> {
  if (json === '') return {};
  try {
    const found: unknown = JSON.parse(json);
    if (typeof found === 'object' && found !== null && !Array.isArray(found))
      return found as Record<string, Credential>;
  } catch {
    // the message of the parser would quote secrets
  }
  throw unusable(`its entry "${SERVICE}" is not from this program. Delete it and log in again`);
}

export function keyringOf(entry: Entry): Keyring {
  const hostOf = (url: string) => new URL(url).host.toLowerCase();
  return {
    async read(url) {
      const token: unknown = ownValue(parse(await entry.get()), hostOf(url))?.api_token;
      return typeof token === 'string' ? token : '';
    },
    async write(url, token) {
      const host = hostOf(url);
      const all = { ...parse(await entry.get()), [host]: { coder_url: host, api_token: token } };
      await entry.set(JSON.stringify(all));
    },
    async remove(url) {
      const { [hostOf(url)]: removed, ...others } = parse(await entry.get());
      if (removed === undefined) return;
      if (Object.keys(others).length === 0) await entry.clear();
      else await entry.set(JSON.stringify(others));
    },
  };
}

/** @throws AppError `unavailable` on systems whose keyring this program cannot use */
export function systemKeyring(env: NodeJS.ProcessEnv, platform: NodeJS.Platform = process.platform): Keyring {
  if (platform === 'darwin') return keyringOf(macKeychain(env));
  if (platform === 'win32') throw unusable('this program cannot use the one of Windows yet');
  return keyringOf(secretService(env));
}
