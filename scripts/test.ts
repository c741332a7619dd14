// `npm test`: every *.test.ts beside the code and in e2e/, on one shared PostgreSQL, with one closing line.

import { chmodSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { run } from 'node:test';
import { spec as Spec } from 'node:test/reporters';
import { createLogger, homeFolder } from '@platform/kit';
import { findTerraform } from '@platform/provisioner';
import { startTestPostgres } from '@platform/testkit/postgres';

const only = process.argv.slice(2);
const patterns = ['packages/*/src/**/*.test.ts', 'scripts/*.test.ts', 'e2e/**/*.test.ts'];
const files = globSync(patterns)
  .filter((file) => only.length === 0 || only.some((part) => file.includes(part)))
  .sort();
if (files.length === 0) {
  console.error(`No test file matches ${only.join(' ')}.`);
  process.exit(1);
}
// tests that run terraform find it on PATH: where there is none, the project's own installer brings it
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

// what tests leave behind goes with them; a short path, since sockets' addresses are short
const temporary = mkdtempSync(join(tmpdir(), 't-'));
// as /tmp is: some processes run as users of their own
chmodSync(temporary, 0o1777);
process.env['TMPDIR'] = temporary;

const postgres = await startTestPostgres();
process.env['TEST_PG_URL'] = postgres.url;
// terraform neither asks its publisher for news nor reads this machine's settings
const emptyConfig = join(temporary, 'terraformrc');
writeFileSync(emptyConfig, '');
process.env['TF_CLI_CONFIG_FILE'] = emptyConfig;
process.env['CHECKPOINT_DISABLE'] = '1';

const counts = { passed: 0, failed: 0, skipped: 0 };
const skipped: string[] = [];
const stream = run({ files: files.map((file) => join(process.cwd(), file)), concurrency: 2, timeout: 300_000 });
stream.on('test:pass', (event) => {
  if (event.details.type === 'suite') return;
  if (event.skip !== undefined) {
    counts.skipped++;
    skipped.push(`${event.name}${typeof event.skip === 'string' ? `: ${event.skip}` : ''}`);
  } else counts.passed++;
});
stream.on('test:fail', (event) => {
  if (event.details.type !== 'suite') counts.failed++;
});
const started = performance.now();
stream.compose(new Spec()).pipe(process.stdout);
await new Promise<void>((resolve) => stream.once('end', resolve));
await postgres.stop();
// what still ends may still write
rmSync(temporary, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
for (const line of skipped) console.log(`skipped: ${line}`);
if (skipped.length > 0 && process.env['REQUIRE_NO_SKIPS'] === '1') counts.failed += skipped.length;
console.log(
  `${files.length} files in ${((performance.now() - started) / 1000).toFixed(1)} s, ${counts.skipped} skipped`,
);
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed > 0 || counts.passed === 0 ? 1 : 0);
