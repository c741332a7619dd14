import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSelector } from './label-selector.ts';

const LABELS = { team: 'a', 'coder.com/provisioner': 'berlin', empty: '' };

const SELECTORS: [text: string, selects: boolean][] = [
  ['', true],
  ['team=a', true],
  ['team==a', true],
  ['team = b', false],
  ['empty=', true],
  ['other=', false],
  ['team!=b', true],
  ['team!=a', false],
  ['other!=a', true],
  ['team in (b, a)', true],
  ['team in (b,c)', false],
  ['team notin (b,c)', true],
  ['other notin (b)', true],
  ['team notin (a)', false],
  ['team', true],
  ['toString', false],
  ['!team', false],
  ['!other', true],
  ['coder.com/provisioner=berlin,team in (a,b),!other', true],
  ['coder.com/provisioner=berlin,team=b', false],
];
for (const [text, selects] of SELECTORS)
  test(`"${text}" ${selects ? 'selects' : 'does not select'}`, () =>
    assert.equal(parseSelector(text)!(LABELS), selects));

test('rejects malformed selectors', () => {
  for (const text of ['=a', 'a,', ',', 'a in b', 'a in (b', 'a=b=c', 'a b', 'a>1 x', '!'])
    assert.equal(parseSelector(text), undefined, text);
});
