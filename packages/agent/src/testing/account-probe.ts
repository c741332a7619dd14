import { chmodSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Creates a program that prints the account it runs as, in a directory that any user can read. */
export function createAccountProbe(): { path: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'agent-account-'));
  copyFileSync(join(import.meta.dirname, '../environment.ts'), join(dir, 'environment.mts'));
  copyFileSync(join(import.meta.dirname, '../data-dir.ts'), join(dir, 'data-dir.ts'));
  const path = join(dir, 'probe.mts');
  const text = `import { currentAccount } from './environment.mts';
console.log(JSON.stringify(currentAccount(process.env)));
`;
  writeFileSync(path, text);
  chmodSync(dir, 0o755); // mkdtemp makes it private.
  return { path, remove: () => rmSync(dir, { recursive: true }) };
}
