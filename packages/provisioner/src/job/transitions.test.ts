import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Resource } from '@ropewalk/wire/proto/provisioner';
import { CODER, type Harness, harness, importJob, tarOf } from '../testing/harness.ts';
import { PLANNED_STOP } from '../testing/planned-stop.ts';

// Imports whose stop is planned by Terraform compare with those whose stop is read from the template.

let h: Harness;
before(async () => {
  h = await harness();
  h.start();
});
after(() => h.close());

const FOLDER = join(import.meta.dirname, '../../../hcl/src/testing/transitions');
const NAMES = readdirSync(FOLDER);

function filesOf(name: string, prefix = ''): Record<string, string> {
  const dir = join(FOLDER, name);
  const paths = globSync('**/*.{tf,tf.json,tfvars}', { cwd: dir });
  return Object.fromEntries(paths.map((path) => [`${prefix}${path}`, readFileSync(join(dir, path), 'utf8')]));
}

/** Terraform writes the instances of a module in any order. */
const sorted = (resources: readonly Resource[]) => resources.toSorted((a, b) => (labelOf(a) < labelOf(b) ? -1 : 1));
const labelOf = ({ modulePath, type, name }: Resource) => `${modulePath} ${type} ${name}`;

async function imported(files: Record<string, string>) {
  const from = h.server.logs.length;
  const job = h.server.post(importJob(await tarOf(files)));
  const { completed, failed } = await h.server.verdict(job);
  assert.ok(completed?.type.case === 'templateImport', failed?.error ?? 'no verdict');
  const stop = h.server.logs.slice(from).filter(({ stage }) => stage === 'Detecting ephemeral resources');
  const { startResources, stopResources } = completed.type.value;
  return {
    startResources: sorted(startResources),
    stopResources: sorted(stopResources),
    plannedByTerraform: stop.some(({ output }) => /coder_workspace/.test(output)),
  };
}

const templates: Record<string, Record<string, string>> = {
  'all templates as modules': {
    'main.tf': `${CODER}${NAMES.map((name) => `module "${name}" {\n  source = "./${name}"\n}\n`).join('')}`,
    ...Object.assign({}, ...NAMES.map((name) => filesOf(name, `${name}/`))),
  },
  'a template with variables': filesOf('variables'),
};

for (const [what, files] of Object.entries(templates))
  test(`${what}: the stop has the resources of Terraform's plan`, { timeout: 120_000 }, async () => {
    const predicted = await imported(files);
    const planned = await imported({ ...files, ...PLANNED_STOP });
    assert.deepEqual([predicted.plannedByTerraform, planned.plannedByTerraform], [false, true]);
    assert.ok(planned.stopResources.length < planned.startResources.length);
    assert.deepEqual(predicted.stopResources, planned.stopResources);
    assert.deepEqual(predicted.startResources, planned.startResources);
  });

test('a template that can start and cannot stop is not imported', { timeout: 120_000 }, async () => {
  const template = `${CODER}
data "coder_workspace" "me" {}
resource "terraform_data" "machine" {
  count = data.coder_workspace.me.start_count
}
output "id" {
  value = terraform_data.machine[0].id
}`;
  const { failed } = await h.server.verdict(h.server.post(importJob(await tarOf({ 'main.tf': template }))));
  assert.match(failed?.error ?? '', /template import provision for stop: .*Invalid index/s);
});
