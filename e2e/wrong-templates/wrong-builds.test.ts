import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  type Build,
  buildEnds,
  buildLog,
  commandTemplate,
  createWorkspace,
  descendants,
  eventually,
  firstUser,
  importEnds,
  importVersion,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from '../harness.ts';

/** Templates that are imported, and whose builds go wrong. */
let server: ServerProcess;
before(async () => {
  server = await startCoderServer();
  await firstUser(server);
});
after(() => server?.stop());

/** Starts a workspace whose build runs a command. `meanwhile` runs until the build ends. */
async function buildOf(name: string, command: string, meanwhile?: (build: Build) => Promise<void>): Promise<Build> {
  const template = await makeTemplate(server, name, commandTemplate(command));
  const workspace = await createWorkspace(server, template, name);
  await meanwhile?.(workspace.latest_build);
  const build = await buildEnds(server, workspace.latest_build.id, 120_000);
  const left = () => descendants(server.child.pid!).filter(({ text }) => /terraform (?:init|plan|apply)/.test(text));
  await eventually('no process is left', () => left().length === 0);
  // another build of the same workspace, with a version that is right
  const right = await importVersion(server, commandTemplate('true'), { template_id: template });
  const next = await server.api<Build>('POST', `/workspaces/${workspace.id}/builds`, {
    transition: 'start',
    template_version_id: right.id,
  });
  assert.equal(next.status, 201, JSON.stringify(next.body));
  const mended = await buildEnds(server, next.body.id);
  assert.equal(mended.status, 'running', `${name}: ${mended.job.error}`);
  return build;
}

test('a command that prints 12 MB leaves a log of limited size that says what is missing', async () => {
  // more only takes longer: Terraform itself needs a second of a processor for each MB
  const build = await buildOf('chatty', "yes 'forty characters of a log that never ends' | head -c 12M; exit 3");
  assert.equal(build.status, 'failed');
  assert.match(build.job.error!, /exit status 3|local-exec/);
  const log = await buildLog(server, build.id);
  assert.ok(log.length < 8 << 20, `${log.length} characters`);
  assert.match(log, /left out/);
});

test('a Terraform that crashes fails its build with the signal, and the state is kept', async () => {
  // the parent of the command's shell is Terraform
  const build = await buildOf('crash', 'kill -SEGV $PPID; sleep 60');
  assert.equal(build.status, 'failed');
  assert.match(build.job.error!, /^terraform apply: exit status 2\. Terraform crashed/);
  assert.match(await buildLog(server, build.id), /SIGSEGV/);
});

test('a command that never ends is canceled with its descendants', async () => {
  const build = await buildOf('endless', 'echo begun; sleep 86401 & wait', async ({ id }) => {
    await eventually('the command runs', async () => /begun/.test(await buildLog(server, id)));
    const canceled = await server.api('PATCH', `/workspacebuilds/${id}/cancel`);
    assert.equal(canceled.status, 200, JSON.stringify(canceled.body));
  });
  assert.equal(build.status, 'canceled');
  const left = () => descendants(server.child.pid!).filter(({ text }) => text.includes('sleep 86401'));
  await eventually('the command has ended', () => left().length === 0);
});

test('links out of an archive are skipped, and a binary file is refused by name', async () => {
  const importOf = async (fill: (folder: string) => void): Promise<string> => {
    const folder = mkdtempSync(join(tmpdir(), 'odd-'));
    writeFileSync(join(folder, 'main.tf'), 'resource "terraform_data" "d" {}\n');
    fill(folder);
    const file = await server.api<{ hash: string; message?: string }>(
      'POST',
      '/files',
      execFileSync('tar', ['-c', '-C', folder, '.'], { maxBuffer: 16 << 20 }),
    );
    if (file.status >= 400) return file.body.message ?? '';
    const version = await server.api<{ id: string; message?: string }>(
      'POST',
      '/organizations/default/templateversions',
      { file_id: file.body.hash, provisioner: 'terraform', storage_method: 'file' },
    );
    if (version.status >= 400) return version.body.message ?? '';
    return (await importEnds(server, version.body.id)).job.error ?? '';
  };
  assert.equal(await importOf(() => {}), '');
  // links are skipped, as upstream does: its clients send them
  const reads = (path: string) => `output "a" {\n  value = file("${path}")\n}\n`;
  const link = await importOf((folder) => {
    symlinkSync('/etc/passwd', join(folder, 'users.txt'));
    writeFileSync(join(folder, 'a.tf'), reads('users.txt'));
  });
  assert.match(link, /a\.tf:2: .*no file exists at.*users\.txt/s);
  const up = await importOf((folder) => {
    symlinkSync('../../../../etc', join(folder, 'settings'));
    writeFileSync(join(folder, 'a.tf'), reads('settings/passwd'));
  });
  assert.match(up, /a\.tf:2: .*no file exists at.*settings/s);
  const odd = await importOf((folder) => writeFileSync(join(folder, 'a.tf'), 'locals {\n  a = "\xe9"\n}\n', 'latin1'));
  assert.match(odd, /a\.tf.*(?:UTF-8|encod)/i);
  const large = await importOf((folder) => writeFileSync(join(folder, 'b.tf'), Buffer.alloc(5 << 20, '# much text\n')));
  assert.match(large, /b\.tf.*larger than 4 MiB/);
});
