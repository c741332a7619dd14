import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { terraformDir, upstreamProvider } from './testing/terraform.ts';

// Applies every configuration of upstream's provider tests and examples with upstream's provider and with this one.

interface Configuration {
  name: string;
  source: string;
}

const BLOCK = /^\s*(data|resource|provider|terraform|variable|locals)\b[^\n]*\{/m;
/** Resources of other providers, which cannot be installed here. */
const FOREIGN = /^\s*(?:data|resource)\s+"(?!coder_|terraform_data")/m;
/** A verb of Go's Printf. */
const VERB = /%[sqdvt]/;

function configurations(dir: string): Configuration[] {
  const examples = globSync('{examples,integration}/**/*.tf', { cwd: dir }).map((name) => ({
    name,
    source: readFileSync(join(dir, name), 'utf8'),
  }));
  const inTests = globSync('provider/*_test.go', { cwd: dir }).flatMap((name) =>
    [...readFileSync(join(dir, name), 'utf8').matchAll(/`([^`]*)`/g)]
      .map(([, source]) => source!)
      .filter((source) => BLOCK.test(source))
      .map((source, i) => ({ name: `${name} #${i + 1}`, source })),
  );
  return [...examples, ...inTests].filter(({ source }) => !FOREIGN.test(source) && !VERB.test(source));
}

/** Values that differ between runs. */
const VOLATILE = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

interface StateFile {
  resources: { mode: string; type: string; name: string; instances: { attributes: object }[] }[];
  outputs: object;
}

/**
 * Removes a block without content: upstream's SDK stores null for its inner blocks, this provider empty lists. Both
 * read as empty.
 */
function emptyMonitoring(attributes: { resources_monitoring?: Record<string, object[] | null>[] }): object {
  const [block] = attributes.resources_monitoring ?? [];
  const isEmpty = block && Object.values(block).every((inner) => !inner || inner.length === 0);
  return isEmpty ? { resources_monitoring: [{}] } : {};
}

/** Whether the configuration applies, and the resulting state. */
async function apply({ source }: Configuration, executableDir: string | undefined) {
  const declare = !/required_providers/.test(source);
  const tf = await terraformDir(source, { declare, executableDir });
  try {
    const { ok, output } = await tf.apply({ CODER_WORKSPACE_BUILD_ID: 'b', CODER_WORKSPACE_TRANSITION: 'start' });
    if (!ok) return { ok, output, state: undefined };
    const { resources, outputs } = JSON.parse(readFileSync(join(tf.dir, 'terraform.tfstate'), 'utf8')) as StateFile;
    const found = resources.map(({ mode, type, name, instances }) => ({
      address: `${mode} ${type}.${name}`,
      instances: instances.map(({ attributes }) => ({ ...attributes, ...emptyMonitoring(attributes) })),
    }));
    return { ok, output, state: JSON.stringify({ found, outputs }, null, 1).replaceAll(VOLATILE, 'UUID') };
  } finally {
    await tf.remove();
  }
}

if (upstreamProvider !== undefined) {
  const all = configurations(join(upstreamProvider, 'source'));
  test('finds the configurations', () => assert.ok(all.length > 120, `${all.length}`));
  test('applies what upstream applies, with the same state', { concurrency: 2 }, async (t) => {
    for (const configuration of all) {
      t.test(configuration.name, async () => {
        const [theirs, ours] = await Promise.all([
          apply(configuration, upstreamProvider),
          apply(configuration, undefined),
        ]);
        assert.equal(ours.ok, theirs.ok, `${configuration.source}\nupstream: ${theirs.output}\nours: ${ours.output}`);
        assert.equal(ours.state, theirs.state, configuration.source);
      });
    }
  });
}
