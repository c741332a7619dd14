import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProvisionerDaemon, ProvisionerJob } from '@ropewalk/contract';
import { UNTAGGED } from '@ropewalk/rules';
import type { Provisioner } from '../crd/provisioner.ts';
import { demandOf } from './scale.ts';

test('counts a job once that a daemon took between the answers of a poll', () => {
  const provisioner = { spec: { tags: { zone: 'eu' } } } as unknown as Provisioner;
  const tags = { ...UNTAGGED, zone: 'eu' };
  const pending = ['taken', 'waiting'].map((id) => ({ id, tags })) as unknown as ProvisionerJob[];
  const daemons = [
    { status: 'busy', current_job: { id: 'taken' } },
    { status: 'idle', current_job: null },
  ] as ProvisionerDaemon[];
  assert.deepEqual(demandOf({ provisioner, daemons, pending }), { pending: 1, busy: 1 });
});
