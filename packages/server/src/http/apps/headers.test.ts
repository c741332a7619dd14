import assert from 'node:assert/strict';
import { test } from 'node:test';
import { towardsApp, withoutTokens } from './headers.ts';

const TOKEN = 'abcdefghij-0123456789012345678901';

test('removes session tokens from a query, however they are written', () => {
  const cases: [string, string][] = [
    ['/x?coder_session_token=a', '/x'],
    ['/x?a=1&coder%5fsession_token=a&b=2', '/x?a=1&b=2'],
    ['/x?%63oder_session_token=a#top', '/x#top'],
    [`/x?access_token=${TOKEN}`, '/x'],
    [`/x?access%5Ftoken=${TOKEN.replace('-', '%2D')}&b`, '/x?b'],
    // an app's own
    ['/x?access_token=its-own', '/x?access_token=its-own'],
    ['/x?q=coder_session_token', '/x?q=coder_session_token'],
    ['/x?%zz=1&coder_session_token=a', '/x?%zz=1'],
    ['/x', '/x'],
  ];
  for (const [from, to] of cases) assert.equal(withoutTokens(from), to, from);
});

test('passes no session token to an app in a header', () => {
  const by = { forwardedFor: '192.0.2.1', host: 'app.test', proto: 'http', kind: 'subdomain' as const };
  const raw = [
    ...['X-Forwarded-For', '203.0.113.9'],
    ...['Referer', `https://app.test/?coder_session_token=${TOKEN}&a=1`],
    ...['Authorization', `Bearer   ${TOKEN}`],
    ...['Coder-Session-Token', TOKEN],
    ...['Cookie', `coder_session_token=${TOKEN}; own=1`],
  ];
  const sent = towardsApp(raw, by);
  assert.ok(!sent.join('\n').includes(TOKEN), sent.join('\n'));
  assert.ok(sent.includes('https://app.test/?a=1'));
  assert.ok(sent.includes('own=1'));
  assert.equal(sent[sent.indexOf('X-Forwarded-For') + 1], '192.0.2.1', 'a client says nothing of where it is');
});
