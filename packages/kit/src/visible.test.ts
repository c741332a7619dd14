import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visible } from './visible.ts';

test('shows what would act on a terminal or hide in a text', () => {
  const cases: Record<string, string> = {
    'title \u001b]0;x\u0007': 'title \\u001b]0;x\\u0007',
    'C1 \u009b2J \u009d8;;x\u009c': 'C1 \\u009b2J \\u009d8;;x\\u009c',
    'over\rwritten\b\u007f': 'over\\u000dwritten\\u0008\\u007f',
    'bidi \u202e\u2066\u061c\u200f': 'bidi \\u202e\\u2066\\u061c\\u200f',
    'hidden \u200b\u200c\u2060\ufeff\u00ad\u3164\u180e': 'hidden \\u200b\\u200c\\u2060\\ufeff\\u00ad\\u3164\\u180e',
    'tags \u{e0041}': 'tags \\udb40\\udc41',
    'half \ud83d': 'half \\ud83d',
    'joined a\u200db': 'joined a\\u200db',
    'lines \u2028\u2029\n\t': 'lines \\u2028\\u2029\\u000a\\u0009',
  };
  for (const [text, shown] of Object.entries(cases)) assert.equal(visible(text), shown);
  assert.equal(visible('a\n\tb\r', '\n\t'), 'a\n\tb\\u000d');
  assert.equal(visible('a\\u001b'), 'a\\u001b');
});

test('leaves every script and emoji as they are', () => {
  for (const text of ['plain', 'Zoë 東京 עברית العربية \u0600١', '👩\u200d💻 👩🏽\u200d🚀 🏳\ufe0f\u200d🌈 ⧗ ✔ └─'])
    assert.equal(visible(text), text);
});

test('keeps the value of JSON', () => {
  const value = { 'a\u202e': ['\u009b31m', '\u{e0041}', 'line\nbreak'] };
  const shown = visible(JSON.stringify(value, null, 2), '\n');
  assert.deepEqual(JSON.parse(shown), value);
  assert.match(shown, /^[\x20-\x7e\n]*$/);
});
