import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { completeJob } from '@ropewalk/server/app/job/complete';
import { createTestTemplate, eventually, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { invoke } from '../testing/invoke.ts';
import { openTerminal, type Terminal } from '../testing/terminal.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
  await createTestTemplate(server, 'docker');
});
after(() => server.stop());

const serverEnv = () => ({ CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken });

function open(t: TestContext, argv: readonly string[], env: NodeJS.ProcessEnv = {}, columns?: number): Terminal {
  const home = mkdtempSync(join(tmpdir(), 'terminal-'));
  const terminal = openTerminal(argv, { HOME: home, ...serverEnv(), ...env }, columns);
  t.after(async () => {
    terminal.kill();
    await terminal.exited;
    // a build that waits must not be taken by the next test
    await server.services.sql`UPDATE provisioner_jobs SET completed_at = now() WHERE started_at IS NULL`;
    rmSync(home, { recursive: true, force: true });
  });
  return terminal;
}

const last = (terminal: Terminal) => terminal.screen().slice(-2).join('\n');

/** Logs what Terraform prints, then ends the build. */
async function runBuild(between: (log: (stage: string, output: string) => Promise<void>) => Promise<void>) {
  const own = await takeJob(server);
  const { sql, events } = server.services;
  await between(async (stage, output) => {
    await sql`INSERT INTO provisioner_job_logs (job_id, created_at, source, level, stage, output)
      VALUES (${own.jobId}, now(), 'provisioner', 'info', ${stage}, ${output})`;
    await events.publish(sql, 'job_changed', { job_id: own.jobId });
  });
  const type = { case: 'workspaceBuild' as const, value: {} };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

test('shows why a build waits, in place, and keeps finished stages as lines', async (t) => {
  const terminal = open(t, ['create', 'live', '-t', 'docker', '-y']);
  await eventually('the reason is on the screen', () =>
    /^[⠋-⠿] Queued {2}\d+s\n {4}WARN: \S/m.test(terminal.screen().join('\n')),
  );
  const frames = () => new Set(terminal.raw().match(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/g)).size;
  await eventually('the spinner turns', async () => frames() > 3);
  assert.equal(terminal.screen().filter((line) => line.includes('Queued')).length, 1);

  await runBuild(async (log) => {
    await log('Starting workspace', 'container.dev: Creating...');
    await eventually('the log is above the live line', () =>
      /^ {4}container\.dev: Creating\.\.\.\n[⠋-⠿] Starting workspace {2}\d+s$/m.test(last(terminal)),
    );
    await log('Starting workspace', 'clears the screen: \u001b[2J');
    await log('Cleaning Up', '');
  });
  assert.equal(await terminal.exited, 0);
  const text = terminal.screen().join('\n');
  assert.match(text, /^==> ✔ Queued \[[\d.]+m?s\]\n==> ⧗ Starting workspace\n {4}container\.dev: Creating\.\.\.\n/);
  assert.match(text, /\n==> ✔ Starting workspace \[[\d.]+m?s\]\n==> ✔ Cleaning Up \[[\d.]+m?s\]\n/);
  assert.match(text, /\n✔ The workspace live has been created\.\n/);
  assert.doesNotMatch(text, /[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]|WARN/);
  assert.match(text, /clears the screen/);
  assert.ok(!terminal.raw().includes('\u001b[2J'), 'logs do not control the terminal');
  assert.ok(!terminal.raw().includes('\u001b[?25l'), 'the cursor stays visible');
});

test('leaves a clean line after Ctrl+C, and cancels the build', async (t) => {
  const terminal = open(t, ['create', 'stopped', '-t', 'docker', '-y']);
  await eventually('the build waits', async () => last(terminal).includes('Queued'));
  terminal.write('\u0003');
  assert.equal(await terminal.exited, 130);
  const screen = terminal.screen().filter((line) => line !== '');
  assert.match(
    screen.join('\n'),
    /Canceling\. Press Ctrl\+C again to exit immediately\.\n==> ✘ Queued \[[\d.]+m?s\]\nCanceled\.$/,
  );
});

test('clears the live line when a second Ctrl+C ends the program', async (t) => {
  const terminal = open(t, ['create', 'left', '-t', 'docker', '-y']);
  await eventually('the build waits', async () => last(terminal).includes('Queued'));
  terminal.write('\u0003\u0003');
  assert.equal(await terminal.exited, 130);
  assert.doesNotMatch(terminal.screen().join('\n'), /[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/);
});

test('fits the live lines into a narrow terminal, also after it became narrower', async (t) => {
  const terminal = open(t, ['create', 'narrow', '-t', 'docker', '-y'], {}, 50);
  await eventually('the reason is on the screen', async () => last(terminal).includes('    '));
  for (const line of terminal.screen()) assert.ok([...line].length < 50, line);
  terminal.resize(30);
  await eventually('the region is drawn for 30 columns', async () => {
    const region = terminal.screen().slice(-4);
    return region.every((line) => [...line].length < 30) && region.some((line) => line.includes('Queued'));
  });
});

test('prints plain lines to a pipe or a dumb terminal', async (t) => {
  const running = invoke(['create', 'piped', '-t', 'docker', '-y'], serverEnv());
  await eventually('the job waits', async () => {
    const [job] = await server.services
      .sql`SELECT 1 FROM provisioner_jobs WHERE started_at IS NULL AND completed_at IS NULL`;
    return job !== undefined;
  });
  await runBuild(async (log) => log('Starting workspace', 'made'));
  const { stdout, code } = await running;
  assert.equal(code, 0);
  assert.match(stdout, /^(==> ⧗ Queued\n( {4}WARN: .*\n)?==> ✔ Queued \[.*\]\n)?==> ⧗ Starting workspace\n {4}made\n/);
  assert.match(stdout, /\nThe workspace piped has been created\.\n$/);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
  assert.doesNotMatch(stdout, /\u001b/);

  const dumb = open(t, ['list'], { TERM: 'dumb' });
  assert.equal(await dumb.exited, 0);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
  assert.doesNotMatch(dumb.raw(), /\u001b/);
});
