// `npm run generate` writes the committed files that are generated from other files. Tests fail if one of them is
// stale.
import { spawnSync } from 'node:child_process';

const makers: [string[], NodeJS.ProcessEnv][] = [
  [['packages/server/src/config/write-docs.ts'], {}],
  [['packages/contract/src/write-docs.ts'], {}],
  [['packages/operator/src/crd/write.ts'], {}],
  [['--test', 'packages/cli/src/commands/commands.test.ts'], { UPDATE_GOLDEN: '1' }],
  [['--test', 'packages/cli/src/commands/upstream.test.ts'], { UPDATE_GOLDEN: '1' }],
  [['--test', 'packages/contract/src/upstream/rest-api.test.ts'], { UPDATE_GOLDEN: '1' }],
];
for (const [args, env] of makers) {
  const { status } = spawnSync(process.execPath, args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...env },
  });
  console.log(`${status === 0 ? 'made' : 'FAILED'}: ${args.join(' ')}`);
  if (status !== 0) process.exitCode = 1;
}
