import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProvisionerJob } from '@ropewalk/contract';
import { inFlightText } from './job.ts';

const job = (error: string | undefined, names?: string[]) =>
  ({ ...(error ? { error } : {}), ...(names ? { in_flight: names } : {}) }) as ProvisionerJob;

test('names resources in flight once', () => {
  assert.equal(inFlightText(job('no')), '');
  assert.equal(inFlightText(job('no', ['vm.a', 'vm.b'])), '\nResources that were being created: vm.a, vm.b.');
  assert.equal(inFlightText(job('lost. Resources that were being created: vm.a.', ['vm.a'])), '');
  assert.equal(inFlightText(job(undefined, ['vm.a'])), '\nResources that were being created: vm.a.');
});
