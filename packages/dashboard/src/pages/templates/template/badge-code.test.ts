import assert from 'node:assert/strict';
import { test } from 'node:test';
import { badgeCode } from './badge-code.ts';

test('the link survives Markdown and HTML', () => {
  const { markdown, html } = badgeCode(
    'https://x.test',
    'https://x.test/templates/o/t/workspace?mode=auto&param.a=(b)',
  );
  assert.equal(
    markdown,
    '[![Open in Coder](https://x.test/open-in-coder.svg)](https://x.test/templates/o/t/workspace?mode=auto&param.a=%28b%29)',
  );
  assert.match(html, /href="https:\/\/x.test\/templates\/o\/t\/workspace\?mode=auto&amp;param.a=\(b\)"/);
});
