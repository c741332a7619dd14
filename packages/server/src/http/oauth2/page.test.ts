import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DARK, LIGHT } from './page.ts';

test('the consent page has the colors of the dashboard', () => {
  const file = join(import.meta.dirname, '../../../../dashboard/src/styles/tokens.css');
  const [, light = '', dark = ''] =
    /^:root \{(.*?)^\}.*^\[data-theme="dark"\] \{(.*?)^\}/ms.exec(readFileSync(file, 'utf8')) ?? [];
  for (const [own, theme] of [
    [LIGHT, light],
    [DARK, dark],
  ] as const) {
    for (const pair of own.split(';')) {
      const [name, value] = pair.split(':');
      assert.ok(theme.includes(`${name}: ${value};`), pair);
    }
  }
});
