// `npm run check` checks types, lint, format and wording with separate programs.
import { spawnSync } from 'node:child_process';
import { basename } from 'node:path';

const checks: [string, string[]][] = [
  ['node_modules/.bin/tsc', ['-p', '.']],
  ['node_modules/.bin/tsc', ['-p', 'packages/dashboard']],
  ['node_modules/.bin/biome', ['check', '--error-on-warnings', '.']],
  [process.execPath, ['scripts/words.ts']],
];
let failed = 0;
for (const [program, args] of checks) {
  const { status } = spawnSync(program, args, { stdio: 'inherit' });
  console.log(`${status === 0 ? 'ok' : 'FAILED'}: ${basename(program)} ${args.join(' ')}`);
  if (status !== 0) failed++;
}
process.exit(failed > 0 ? 1 : 0);
