// `npm test` runs every *.test.ts next to the code and the tests of the main path, from an empty server to a shell.
// `npm run test:system` runs the other tests of the whole system, which are in e2e/ and take as long again.
// `npm test PART...` runs the files whose path contains a part. All files share one PostgreSQL, and those next to the code
// share a few processes, except files with the comment `own process:` and a reason. The last line has the counts. The lines
// before it name flaky files: docs/flaky-tests.md. TEST_FILE_SECONDS is how long a file may take, if not 300, or 600 with
// --system.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { createLogger, errorText, homeFolder, silentLogger } from '@ropewalk/kit';
import { findTerraform } from '@ropewalk/provisioner';
import { createDashboard } from '@ropewalk/server';
import { startFastPostgres } from '@ropewalk/testkit/postgres';
import { SYSTEMS } from './executable/systems.ts';
import { flakyFiles, runTestFiles } from './test-files.ts';

const MAIN_PATH = ['e2e/main-line.test.ts', 'e2e/dashboard/main-line.test.ts'];
/** They assert how long moves of agents take, and that a page and a build succeed in the time of an update. */
const ALONE = ['e2e/pods-update.test.ts', 'e2e/server-moves.test.ts'];
/** The comment of a file that measures its process, or that no other file may come before in it. */
const OWN_PROCESS = /^\/\/ own process: \S/m;
const BUILD_MS = 600_000;
const beside = globSync(['packages/*/src/**/*.test.ts', 'scripts/**/*.test.ts', 'bench/**/*.test.ts']);
const system = globSync('e2e/**/*.test.ts').filter((file) => !MAIN_PATH.includes(file));

const isSystem = process.argv[2] === '--system';
const only = process.argv.slice(isSystem ? 3 : 2);
const chosen = isSystem ? system : [...beside, ...MAIN_PATH, ...(only.length > 0 ? system : [])];
const files = chosen.filter((file) => only.length === 0 || only.some((part) => file.includes(part))).sort();
if (files.length === 0) {
  console.error(`No test file matches ${only.join(' ')}.`);
  process.exit(1);
}
// Tests that run terraform find it on PATH. If PATH has no terraform, the project's own installer adds it.
const log = createLogger();
const cacheDir = join(homeFolder(), '.cache', 'coder');
const install = {
  cacheDir,
  log,
  env: process.env,
  ...(process.env['CODER_TERRAFORM_DOWNLOAD_URL'] ? { baseUrl: process.env['CODER_TERRAFORM_DOWNLOAD_URL'] } : {}),
};
const terraform = await findTerraform({ env: process.env, log, install }).catch((err: Error) => {
  console.error(err.message);
  process.exit(1);
});
process.env['PATH'] = `${dirname(terraform.path)}${delimiter}${process.env['PATH']}`;

// the files of this checkout are compiled once, not by each of a thousand processes
process.env['NODE_COMPILE_CACHE'] = join(cacheDir, 'compiled');

// stays after the run, unlike the folder for files that tests leave behind
const flakyOutputs = process.env['FLAKY_OUTPUTS'] ?? join(tmpdir(), `flaky-${process.pid}`);
// imports that run under a separate uid do not see /tmp
const PLACE = process.getuid?.() === 0 ? '/var/lib' : tmpdir();
// files that tests leave behind are removed with this folder
const temporary = mkdtempSync(join(PLACE, 't-'));
// open to all users like /tmp, because some processes run as other users
chmodSync(temporary, 0o1777);
process.env['TMPDIR'] = temporary;

// Many tests need the executable or the dashboard, and each of their servers would begin to build them.
if (only.length === 0) {
  // with QEMU, the image of the other architecture is started too
  const emulates = isSystem && globSync('/usr/lib/binfmt.d/qemu-{aarch64,x86_64}.conf').length > 0;
  const build = ['scripts/build.ts', ...(emulates ? ['linux-x64', 'linux-arm64'] : [])];
  const building = spawn(process.execPath, build, { stdio: ['ignore', 'ignore', 'inherit'], timeout: BUILD_MS });
  const dashboard = createDashboard({ log: silentLogger });
  const built = once(building, 'exit').then(([status]) => {
    if (status !== 0) throw new Error('Cannot build the executable: see the messages above.');
  });
  try {
    await Promise.all([built, dashboard.files()]);
  } catch (err) {
    console.error(errorText(err));
    building.kill();
    await dashboard.close();
    process.exit(1);
  }
  await dashboard.close();
  process.env['TEST_EXECUTABLE'] = join(process.cwd(), 'dist', SYSTEMS[`${process.platform}-${process.arch}`]!.name);
}

const postgres = await startFastPostgres();
Object.assign(process.env, postgres.env);
// terraform neither checks for updates nor reads this machine's settings
const emptyConfig = join(temporary, 'terraformrc');
writeFileSync(emptyConfig, '');
process.env['TF_CLI_CONFIG_FILE'] = emptyConfig;
process.env['CHECKPOINT_DISABLE'] = '1';

const started = performance.now();
// an update of pods under load takes minutes on a slow machine
const fileSeconds = process.env['TEST_FILE_SECONDS'] ?? (isSystem ? '600' : undefined);
const absolute = (file: string) => join(process.cwd(), file);
const { passed, failed, skipped, flaky } = await runTestFiles({
  files: files.map(absolute),
  alone: ALONE.map(absolute),
  shared: files.filter((file) => beside.includes(file) && !OWN_PROCESS.test(readFileSync(file, 'utf8'))).map(absolute),
  // A third file keeps two processors busy while another waits. The tests of the whole system start more processes.
  concurrency: isSystem ? 2 : 3,
  // a slow machine takes 45 minutes for the tests of the whole system
  ...(isSystem ? { wholeMs: 3_600_000 } : {}),
  ...(fileSeconds ? { fileMs: Number(fileSeconds) * 1_000 } : {}),
  listed: flakyFiles(readFileSync('docs/flaky-tests.md', 'utf8')),
  outputs: flakyOutputs,
  print: (text) => process.stdout.write(text),
});
await postgres.stop();
// processes that are still ending may still write
rmSync(temporary, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
for (const line of skipped) console.log(`skipped: ${line}`);
const refused = process.env['REQUIRE_NO_SKIPS'] === '1' ? skipped.length : 0;
console.log(
  `${files.length} files in ${((performance.now() - started) / 1000).toFixed(1)} s, ${skipped.length} skipped`,
);
for (const line of flaky) console.log(line);
console.log(`${passed} passed, ${failed + refused} failed`);
process.exit(failed + refused > 0 || passed === 0 ? 1 : 0);
