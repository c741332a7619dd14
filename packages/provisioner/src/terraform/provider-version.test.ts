import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isServed } from './provider-version.ts';

test('accepts constraints that some release up to ours satisfies', () => {
  for (const asked of [
    [],
    ['>= 2.13'],
    ['~> 2.0', '>= 2.4.0, < 3'],
    ['2.19.0'],
    ['0.6.10'],
    ['~> 1.0'],
    ['~> 0.12.1'],
    ['> 2.18', '!= 2.18.1'],
    ['< 1'],
    ['< 2.5.0'],
    ['~> 2'],
  ])
    assert.ok(isServed(asked), asked.join(' '));
  for (const asked of [['>= 99'], ['~> 3.0'], ['> 2.19.0'], ['= 2.20'], ['>= 2.0', '< 2.0'], ['~> 1.0', '~> 2.0']])
    assert.ok(!isServed(asked), asked.join(' '));
});
