import assert from 'node:assert/strict';
import { test } from 'node:test';
import { usageText } from './usage.ts';

test('shows usage in the chosen unit with significant digits', () => {
  const memory = { used: 1.2 * 2 ** 30, total: 15.6 * 2 ** 30, unit: 'B' } as const;
  assert.equal(usageText(memory), '1.2/15.6 GiB (8%)');
  assert.equal(usageText(memory, 'Ti'), '0.00117/0.0152 TiB (8%)');
  assert.equal(usageText({ used: 512, unit: 'B' }, 'Ti'), '0.000000000466 TiB');
  assert.equal(usageText({ used: 512 * 2 ** 20, total: 4 * 2 ** 30, unit: 'B' }), '0.5/4 GiB (13%)');
  assert.equal(usageText({ used: 0, total: 0, unit: 'B' }, 'Mi'), '0/0 MiB (0%)');
  assert.equal(usageText({ used: 0.123, total: 2, unit: 'cores' }), '0.12/2 cores (6%)');
});
