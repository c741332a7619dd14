import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tarOf } from '@ropewalk/testkit';
import { engineFor } from './engine.ts';
import type { TerraformBinary } from './version.ts';

test('chooses the first engine that the template allows, with its modules where the server says so', async () => {
  const engines = ['1.5.7', '1.9.0', '1.11.4'].map(
    (version): TerraformBinary => ({ engine: 'terraform', path: `/${version}`, version }),
  );
  const archive = await tarOf({
    'main.tf': 'terraform {\n  required_version = ">= 1.1"\n}\nmodule "near" {\n  source = "./near"\n}\n',
    'near/main.tf': 'terraform {\n  required_version = "> 1.5.7"\n}\n',
    'unused/main.tf': 'terraform {\n  required_version = ">= 9"\n}\n',
  });
  const chosen = async (...more: [required?: string]) => (await engineFor(engines, archive, ...more)).version;
  assert.equal(await chosen(), '1.9.0');
  assert.equal(await chosen(''), '1.9.0');
  assert.equal(await chosen('>= 1.1, > 1.5.7, >= 1.10'), '1.11.4');
  assert.equal(await chosen('>= 9'), '1.5.7', 'Terraform says why');
});
