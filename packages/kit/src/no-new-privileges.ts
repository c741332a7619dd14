import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const PATH = '/usr/bin:/bin';

/**
 * The command that runs another command, and all that it starts, without privileges from setuid files. Empty if the
 * machine has no such command.
 */
export function noNewPrivileges(): string[] {
  for (const file of ['/usr/bin/setpriv', '/bin/setpriv', '/usr/local/bin/setpriv']) {
    const command = [file, '--no-new-privs'];
    const probe = spawnSync(file, ['--no-new-privs', '/bin/true'], { cwd: '/', env: { PATH }, timeout: 10_000 });
    if (probe.status === 0) return command;
  }
  return [];
}

/** Whether this process, and all that it starts, get no privileges from setuid files. */
export function hasNoNewPrivileges(): boolean {
  try {
    return /^NoNewPrivs:\s*1$/m.test(readFileSync('/proc/self/status', 'utf8'));
  } catch {
    return false;
  }
}
