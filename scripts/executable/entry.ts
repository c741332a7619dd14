// The entry of the single executable. It provides the files that it contains to the programs, and then runs the command.
import { join } from 'node:path';
import { contained, contains, containsWhole } from './contained.ts';
import { cacheFolder, requireFrom, unpack } from './unpack.ts';

const lazily = <K extends keyof typeof globalThis>(name: K, make: () => unknown) =>
  Object.defineProperty(globalThis, name, { configurable: true, get: make });

lazily('PLATFORM_SLIM' as never, () => !containsWhole());
lazily('PLATFORM_MIGRATIONS' as never, () => JSON.parse(contained('migrations').toString()));
lazily('PLATFORM_EXAMPLES' as never, () => JSON.parse(contained('examples').toString()));
lazily('PLATFORM_WORKER' as never, () => contained('worker.js').toString());
lazily('PLATFORM_INSTALL_SCRIPT' as never, () => contained('install.sh').toString());
lazily('PLATFORM_DASHBOARD' as never, () => ({
  index: contained('dashboard.json').toString(),
  bytes: contained('dashboard.bin'),
}));
lazily('PLATFORM_UNPACK_POSTGRES' as never, () =>
  contains('postgres.zst') ? (base: string) => join(unpack('postgres', join(base, 'pg-bin')), 'native') : undefined,
);
lazily('PLATFORM_LOAD_PTY' as never, () => async () => {
  let home: string;
  try {
    home = unpack('pty', join(cacheFolder(), 'pty'));
  } catch {
    // the home folder is not writable
    home = unpack('pty', join('/tmp', `coder-pty-${process.getuid?.() ?? 0}`));
  }
  return requireFrom(home, '@lydell/node-pty');
});

// static imports would run before the lines above
const [group, name] = process.argv.slice(2);
if (group === 'provisioner' && name === 'launcher') void import('../../packages/provisioner/src/isolation/entry.ts');
else if (group === 'provisioner' && name === 'runner') void import('../../packages/provisioner/src/runner/entry.ts');
else void import('../../packages/cli/src/start.ts');
