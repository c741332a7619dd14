import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The example template whose agent runs on the daemon's machine. */
export function localExample(): Record<string, string> {
  const dir = join(dirname(import.meta.dirname), 'examples/local');
  return {
    'main.tf': readFileSync(join(dir, 'main.tf'), 'utf8'),
    'README.md': readFileSync(join(dir, 'README.md'), 'utf8'),
  };
}
