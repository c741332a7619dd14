import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { upstreamProviderSchema } from '@ropewalk/contract/upstream/facts';
import { terraformDir } from './testing/terraform.ts';

type Json = Record<string, unknown>;

/** Descriptions, which may differ. Attributes may have these names too, and are objects then. */
const PROSE = new Set(['description', 'description_kind', 'deprecated_message']);
const isProse = (key: string, value: unknown) => PROSE.has(key) && typeof value === 'string';

/** The paths where `have` differs from `want`. A flag that is false counts as absent. */
function differences(want: unknown, have: unknown, at: string): string[] {
  if (want === null || typeof want !== 'object' || Array.isArray(want)) {
    const same = JSON.stringify(want) === JSON.stringify(have);
    return same ? [] : [`${at}: ${JSON.stringify(have)}, not ${JSON.stringify(want)}`];
  }
  if (have === null || typeof have !== 'object') return [`${at}: missing`];
  const keys = new Set([...Object.keys(want), ...Object.keys(have)]);
  return [...keys].flatMap((key) => {
    const [w, h] = [(want as Json)[key], (have as Json)[key]];
    if (isProse(key, w ?? h) || (w === undefined && h === false)) return [];
    return w === undefined ? [`${at}.${key}: not in upstream's schema`] : differences(w, h, `${at}.${key}`);
  });
}

const TASKS = 'upstream deprecates tasks for another feature, which does not exist here';
/** Where this provider differs on purpose, and why. */
const DIFFERENT: Record<string, string> = {
  "data_source_schemas.coder_secret: not in upstream's schema": 'templates written for versions 2.16 and 2.17',
  ...Object.fromEntries(
    [
      'resource_schemas.coder_ai_task.block.attributes.app_id',
      'resource_schemas.coder_ai_task.block.attributes.enabled',
      'resource_schemas.coder_ai_task.block.attributes.prompt',
      'resource_schemas.coder_ai_task.block.block_types.sidebar_app.block.attributes.id',
      'resource_schemas.coder_ai_task.block',
      'data_source_schemas.coder_task.block.attributes.enabled',
      'data_source_schemas.coder_task.block.attributes.prompt',
      'data_source_schemas.coder_task.block',
    ].map((at) => [`${at}.deprecated: undefined, not true`, TASKS]),
  ),
};

let folder: Awaited<ReturnType<typeof terraformDir>>;
before(async () => {
  folder = await terraformDir('');
});
after(() => folder.remove());

test("has the schema of upstream's provider", async () => {
  const { ok, output } = await folder.terraform(['providers', 'schema', '-json']);
  assert.ok(ok, output);
  const { provider_schemas: schemas } = JSON.parse(output) as { provider_schemas: Record<string, Json> };
  const ours = Object.values(schemas)[0]!;
  const upstream = upstreamProviderSchema();
  assert.deepEqual(Object.keys(ours).sort(), Object.keys(upstream).sort());
  assert.deepEqual(
    Object.keys(upstream)
      .flatMap((part) => differences(upstream[part], ours[part], part))
      .sort(),
    Object.keys(DIFFERENT).sort(),
  );
});

test('the comparison reports missing and additional fields and other types', () => {
  const want = { attributes: { a: { type: 'string', optional: true }, b: { type: ['list', 'string'] } } };
  const have = { attributes: { a: { type: 'number', optional: true, sensitive: false }, c: { type: 'bool' } } };
  assert.deepEqual(differences(want, have, 'x'), [
    'x.attributes.a.type: "number", not "string"',
    'x.attributes.b: missing',
    "x.attributes.c: not in upstream's schema",
  ]);
});
