import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasJudge, ours, type Question, testdata, upstream } from '../testing/judge.ts';

/** Upstream's evaluator of dynamic parameters is the judge: scripts/build-upstream-preview.sh. */
const skip = hasJudge ? false : 'set UPSTREAM_PREVIEW to the folder that scripts/build-upstream-preview.sh prints';

const OWNER = {
  id: '11111111-1111-4111-8111-111111111111',
  name: 'ada',
  full_name: 'Ada Lovelace',
  email: 'ada@example.com',
  ssh_public_key: 'ssh-ed25519 AAAA',
  login_type: 'password',
  groups: ['developer', 'manager', 'admin'],
  rbac_roles: [{ name: 'member', org_id: '' }],
};

/** Where this evaluator differs on purpose: the folder, with `+plan` if a plan was given. */
const DIFFERENT: Record<string, string> = {
  'countsub+plan': 'upstream crashes on a plan without prior state',
  demo: 'a default that is unknown before Terraform runs is not validated as an empty text',
  demo_flat: 'a default that is unknown before Terraform runs is not validated as an empty text',
  dockerdata: 'upstream invents digests for the images of a provider',
  'dockerdata+plan': 'arguments in the template win over those of an older plan',
  dupeparams: 'Terraform rejects two blocks of one name, so the second is only reported',
  instancelist: 'a default that is unknown before Terraform runs is left to the build',
  parse_fail: 'a file that cannot be parsed is reported',
  submodcount: 'a module with a count of 0 is evaluated as absent',
  tfvars: 'as in Terraform, only terraform.tfvars and *.auto.tfvars are read',
};

const own = (name: string) => new URL(`../testing/templates/${name}`, import.meta.url).pathname;
const at = (name: string) => join(testdata, name);

/** Every folder of upstream's data and of ours, with values that people could type. */
function questions(): Question[] {
  const folders = readdirSync(testdata).filter((name) => existsSync(join(testdata, name, 'main.tf')));
  const plain = folders.flatMap((name): Question[] => [
    { dir: at(name) },
    ...(existsSync(at(`${name}/plan.json`)) ? [{ dir: at(name), plan: 'plan.json' }] : []),
  ]);
  const ask = (dir: string, ...all: Record<string, string>[]) => all.map((inputs) => ({ dir, inputs }));
  return [
    ...plain,
    ...ask(at('conditional'), { Project: 'small', Compute: 'micro' }, { Project: 'small', Compute: 'huge' }),
    ...ask(at('paramtags'), { Region: 'eu' }),
    ...ask(at('dynamicblock'), { Region: 'eu' }, { Region: 'nowhere' }),
    ...ask(
      at('formtypes'),
      { single_select: 'textarea', single: 'x', number_format: 'slider', list_format: 'tag-select', list: '["a"]' },
      { number: '101', boolean_format: 'switch', like_it: 'true', satisfaction: '-1', list: '["red", "black"]' },
      { list_format: 'radio', list: '["red"]', boolean: 'maybe', number: 'seven' },
    ),
    ...ask(at('connections'), { yellow: '["bay","sound","strait","channel"]', display: 'true' }),
    ...ask(at('manymodules'), { main_question: 'one-a', one_question: 'nothing' }),
    ...ask(at('required'), { region: 'us' }),
    { dir: at('tfvars'), vars: { one: 'andrew', two: 'bill', three: 'carter', four: 'dan' } },
    ...ask(own('modules'), {}, { region: 'us' }, { region: 'eu', size_a: '8', size_b: '3' }),
    ...ask(
      own('rules'),
      {},
      { cores: '17', name: 'ABC', needed: '' },
      { cores: '1', debug: 'true', tools: '["git","make"]', tags: '["x"]', needed: 'yes' },
      { cores: '2.5', debug: 'no', tools: '["vim"]', tags: 'none', hidden_0: 'x' },
    ),
    ...ask(own('tags'), {}, { region: 'us' }),
    ...ask(own('iterators'), {}, { image: 'debian', use_ubuntu: 'true' }, { image: 'none' }),
    { dir: own('iterators'), owner: { ...OWNER, groups: [] }, inputs: { image: 'debian' } },
  ].map((question): Question => ({ owner: OWNER, ...question }));
}

const labelOf = ({ dir, plan }: Question) => `${dir.split('/').pop()}${plan ? '+plan' : ''}`;

test("agrees with upstream's evaluator", { skip }, async (t) => {
  const all = questions();
  const theirs = upstream(all);
  for (const [i, question] of all.entries()) {
    const label = labelOf(question);
    const why = question.inputs || question.vars ? undefined : DIFFERENT[label];
    await t.test(`${label} ${JSON.stringify(question.inputs ?? {})}`, () => {
      const mine = JSON.parse(JSON.stringify(ours(question)));
      const expected = JSON.parse(JSON.stringify(theirs[i]));
      if (why) assert.notDeepEqual(mine, expected, `no longer different: ${why}`);
      else assert.deepEqual(mine, expected);
    });
  }
});
