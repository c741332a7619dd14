import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allowedVersions, isAllowed } from './version-constraint.ts';

test('decides which versions constraints allow', () => {
  const cases: [constraints: string[], allowed: string[], rejected: string[]][] = [
    [['>= 1.5.0, < 1.9'], ['1.5.0', '1.8.99'], ['1.4.9', '1.9.0', '2.0.0']],
    [['~> 1.2'], ['1.2.0', '1.15.3'], ['1.1.9', '2.0.0']],
    [['~> 1.2.3'], ['1.2.3', '1.2.9'], ['1.2.2', '1.3.0']],
    [['~> 1'], ['1.0.0', '1.9.0'], ['0.9.9', '2.0.0']],
    [['!= 1.6.1'], ['1.6.0', '1.6.2'], ['1.6.1']],
    [['1.6.1'], ['1.6.1', 'v1.6.1'], ['1.6.2']],
    [
      ['> 1.1', '<=1.3.5'],
      ['1.1.1', '1.3.5'],
      ['1.1.0', '1.3.6'],
    ],
    [['> 2.0, < 1.0'], [], ['0.9.0', '1.5.0', '2.1.0']],
    [[], ['0.12.0', '9.0.0'], []],
    [['>= one'], ['0.12.0', '9.0.0'], []],
  ];
  for (const [constraints, allowed, rejected] of cases) {
    const ranges = allowedVersions(constraints);
    for (const version of allowed) assert.ok(isAllowed(version, ranges), `${constraints} allows ${version}`);
    for (const version of rejected) assert.ok(!isAllowed(version, ranges), `${constraints} rejects ${version}`);
  }
});
