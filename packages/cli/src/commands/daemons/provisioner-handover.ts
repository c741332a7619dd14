import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { selfCommand, startedAsProgram } from './self.ts';

/** Flags that hold a secret, and the variables that stand for them. */
const SECRETS = {
  key: 'CODER_PROVISIONER_DAEMON_KEY',
  psk: 'CODER_PROVISIONER_DAEMON_PSK',
  token: 'CODER_SESSION_TOKEN',
  header: 'CODER_HEADER',
  'header-command': 'CODER_HEADER_COMMAND',
} as const;

const PREFIX = 'handover-';
const LEFT_MS = 60_000;

/**
 * Templates run as the daemon's user, and a user may read /proc/<pid>/environ and cmdline of its own processes. So the
 * daemon's process begins anew, under the same pid, with neither in them: the secrets are handed over in a file of
 * `dir` that the new program removes before it does anything else. Returns where there is nothing to hide, or no way.
 */
export function hideSecrets(dir: string, env: NodeJS.ProcessEnv, texts: Record<string, string>): void {
  if (isSecondLife() || !startedAsProgram() || process.platform === 'win32') return;
  const secrets: Record<string, string> = {};
  for (const [flag, name] of Object.entries(SECRETS)) {
    const value = texts[flag] ?? env[name];
    if (value) secrets[name] = value;
  }
  if (Object.keys(secrets).length === 0) return;
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  sweep(dir);
  const file = join(dir, `${PREFIX}${crypto.randomUUID()}`);
  writeFileSync(file, JSON.stringify(secrets), { flag: 'wx', mode: 0o600 });
  const values = new Set(Object.values(secrets)); // under whatever other name too
  const kept = Object.fromEntries(
    Object.entries(process.env).filter(([name, value]) => !(name in secrets) && !values.has(value!)),
  );
  const [program, ...words] = selfCommand(...withoutSecrets(process.argv.slice(2)), '--handover', file);
  process.execve!(program!, [program!, ...process.execArgv, ...words], kept as Record<string, string>);
}

/** What a process left that was killed in between. */
function sweep(dir: string): void {
  for (const name of readdirSync(dir)) {
    const file = join(dir, name);
    const age = () => Date.now() - (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (name.startsWith(PREFIX) && age() > LEFT_MS) rmSync(file, { force: true });
  }
}

/** Whether this process has begun anew already. */
export function isSecondLife(): boolean {
  return process.argv.includes('--handover');
}

/** The secrets as variables, once. */
export function takeSecrets(file: string): Record<string, string> {
  const secrets = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>;
  rmSync(file);
  return secrets;
}

/** A command line without the flags of secrets. */
export function withoutSecrets(argv: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const [, flag, value] = /^--([a-z-]+)(=.*)?$/s.exec(argv[i]!) ?? [];
    if (flag === undefined || !Object.hasOwn(SECRETS, flag)) kept.push(argv[i]!);
    else if (value === undefined) i++;
  }
  return kept;
}
