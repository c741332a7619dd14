import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { selfCommand, startedAsProgram } from '../self.ts';
import { overwriteStart } from './own-start.ts';

/** The flags that hold secrets, and their environment variables. */
const SECRETS = {
  key: 'CODER_PROVISIONER_DAEMON_KEY',
  psk: 'CODER_PROVISIONER_DAEMON_PSK',
  token: 'CODER_SESSION_TOKEN',
  header: 'CODER_HEADER',
  'header-command': 'CODER_HEADER_COMMAND',
} as const;

const PREFIX = 'handover-';
const LEFT_MS = 60_000;

let isOverwritten = false;

/**
 * Templates run as the daemon's user, and a user can read /proc/<pid>/environ and cmdline of its own processes. So the
 * daemon needs a life without secrets in either. This overwrites the secrets and returns the arguments and variables to run
 * again with. Where the system does not permit that, it replaces the program by execve, under the same pid, and passes the
 * secrets in a file of `dir`, which the new program removes first. Returns undefined without secrets, or if the system lacks
 * execve.
 */
export function hideSecrets(
  dir: string,
  env: NodeJS.ProcessEnv,
  texts: Record<string, string>,
): { argv: string[]; env: NodeJS.ProcessEnv } | undefined {
  if (isSecondLife() || !startedAsProgram() || process.platform === 'win32') return;
  const secrets: Record<string, string> = {};
  for (const [flag, name] of Object.entries(SECRETS)) {
    const value = texts[flag] ?? env[name];
    if (value) secrets[name] = value;
  }
  if (Object.keys(secrets).length === 0) return;
  const { kept: argv, values: given } = splitSecrets(process.argv.slice(2));
  // also under other names
  const values = new Set([...Object.values(secrets), ...given].filter((value) => value !== ''));
  const kept = Object.fromEntries(
    Object.entries(process.env).filter(([name, value]) => !(name in secrets) && !values.has(value!)),
  );
  for (const name of Object.keys(process.env)) if (!(name in kept)) delete process.env[name];
  isOverwritten = overwriteStart(values);
  if (isOverwritten) {
    process.argv.splice(2, process.argv.length, ...argv);
    return { argv, env: { ...kept, ...secrets } };
  }
  ensureDirectorySync(dir, { mode: 0o700 });
  sweep(dir);
  const file = join(dir, `${PREFIX}${crypto.randomUUID()}`);
  writeFileSync(file, JSON.stringify(secrets), { flag: 'wx', mode: 0o600 });
  const [program, ...words] = selfCommand(...argv, '--handover', file);
  process.execve!(program!, [program!, ...process.execArgv, ...words], kept as Record<string, string>);
}

/** Removes the files of processes that were killed before they read them. */
function sweep(dir: string): void {
  for (const name of readdirSync(dir)) {
    const file = join(dir, name);
    const age = () => Date.now() - (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (name.startsWith(PREFIX) && age() > LEFT_MS) rmSync(file, { force: true });
  }
}

/** Whether this process has hidden its secrets already. */
export function isSecondLife(): boolean {
  return isOverwritten || process.argv.includes('--handover');
}

/** Reads the secrets as environment variables and removes the file. */
export function takeSecrets(file: string): Record<string, string> {
  const secrets = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>;
  rmSync(file);
  return secrets;
}

/** Separates the flags of secrets from a command line. */
export function splitSecrets(argv: readonly string[]): { kept: string[]; values: string[] } {
  const kept: string[] = [];
  const values: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const [, flag, value] = /^--([a-z-]+)(=.*)?$/s.exec(argv[i]!) ?? [];
    if (flag === undefined || !Object.hasOwn(SECRETS, flag)) kept.push(argv[i]!);
    else values.push(value === undefined ? (argv[++i] ?? '') : value.slice(1));
  }
  return { kept, values };
}
