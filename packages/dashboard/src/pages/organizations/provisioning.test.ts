import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProvisionerDaemon } from '@ropewalk/contract';
import { byAttention, differences, engineName, jobTitle, shownTags } from './provisioning.ts';

test('leaves out the tags that every job and daemon has', () => {
  assert.deepEqual(shownTags({ zone: 'eu', scope: 'organization', owner: '', disk: 'ssd' }), [
    ['disk', 'ssd'],
    ['zone', 'eu'],
  ]);
  assert.deepEqual(shownTags({ scope: 'user', owner: 'ann' }), [
    ['owner', 'ann'],
    ['scope', 'user'],
  ]);
});

test('puts daemons first that need attention', () => {
  const daemon = (name: string, status: ProvisionerDaemon['status'], version = 'v2') =>
    ({ name, status, version }) as ProvisionerDaemon;
  const sorted = byAttention(
    [daemon('idle', 'idle'), daemon('busy', 'busy'), daemon('old', 'idle', 'v1'), daemon('off', 'offline')],
    'v2',
  );
  assert.deepEqual(
    sorted.map(({ name }) => name),
    ['off', 'old', 'busy', 'idle'],
  );
});

test('says how tags differ', () => {
  assert.deepEqual(
    differences({
      missing: { disk: 'ssd' },
      different: { zone: { wanted: 'eu', has: 'us' } },
      taken_for_tagged_jobs: false,
    }),
    ['It lacks disk=ssd.', 'It has zone=us, not zone=eu.'],
  );
  assert.deepEqual(differences({ missing: {}, different: {}, taken_for_tagged_jobs: true }), [
    'It has tags, so it takes only jobs with tags.',
  ]);
});

test('names the object of a job', () => {
  const metadata = {
    template_display_name: 'Docker',
    template_icon: '',
    template_name: 'docker',
    template_version_name: 'v1',
  };
  assert.equal(jobTitle({ type: 'template_version_import', metadata }), 'Import of Docker');
  assert.equal(jobTitle({ type: 'workspace_build', metadata: { ...metadata, workspace_name: 'dev' } }), 'Build of dev');
  assert.equal(
    jobTitle({
      type: 'template_version_import',
      metadata: { ...metadata, template_name: '', template_display_name: '' },
    }),
    'Import of v1',
  );
});

test('names the engines of a daemon', () => {
  assert.equal(engineName('terraform 1.11.4'), 'Terraform 1.11.4');
  assert.equal(engineName('opentofu 1.10.6'), 'OpenTofu 1.10.6');
});
