// `npm run check` checks types, lint and format with separate programs.
import { spawnSync } from 'node:child_process';

const checks: [string, string[]][] = [
  ['tsc', ['-p', '.']],
  ['biome', ['check', '--error-on-warnings', '.']],
];
let failed = 0;
for (const [program, args] of checks) {
  const { status } = spawnSync(`node_modules/.bin/${program}`, args, { stdio: 'inherit' });
  console.log(`${status === 0 ? 'ok' : 'FAILED'}: ${program} ${args.join(' ')}`);
  if (status !== 0) failed++;
}
process.exit(failed > 0 ? 1 : 0);
