import assert from 'node:assert/strict';
import { test } from 'node:test';
import { invoke } from '../../../testing/invoke.ts';

test('rejects wrong options before it connects', async () => {
  for (const [option, value, message] of [
    ['--keda-address', 'nine', /Invalid --keda-address "nine": use HOST:PORT/],
    ['--keda-address', '0.0.0.0:99999', /Invalid --keda-address/],
    ['--external-metrics-address', '6443', /Invalid --external-metrics-address "6443": use HOST:PORT/],
    ['--external-metrics-cert-file', '/tls.crt', /Set both --external-metrics-cert-file and/],
    ['--poll-interval', '0s', /must be greater than 0/],
  ] as const) {
    const { code, stderr } = await invoke(['operator', 'start', option, value], {});
    assert.equal(code, 1);
    assert.match(stderr, message);
  }
});
