import assert from 'node:assert/strict';
import { test } from 'node:test';
import { afterSignIn } from './session.ts';

const origin = 'https://dev.example.com';

test('returns to the page or app that needed the sign-in', () => {
  assert.equal(afterSignIn('/templates?q=a#b', origin), `${origin}/templates?q=a#b`);
  assert.equal(afterSignIn('/@ann/dev/apps/code/', origin), `${origin}/@ann/dev/apps/code/`);
  const app = '/api/v2/applications/auth-redirect?redirect_uri=https%3A%2F%2Fcode--dev.example.com';
  assert.equal(afterSignIn(app, origin), origin + app);
});

test('stays on this server whatever the link says', () => {
  for (const link of ['https://evil.example', '//evil.example', '/\\evil.example', 'javascript:alert(1)', 'http://[']) {
    assert.equal(afterSignIn(link, origin), `${origin}/workspaces`, link);
  }
  assert.equal(new URL(afterSignIn('/.//evil.example', origin)).origin, origin);
});

test('does not return to the sign-in page', () => {
  assert.equal(afterSignIn('/login?redirect=/login', origin), `${origin}/workspaces`);
  assert.equal(afterSignIn(undefined, origin), `${origin}/workspaces`);
});
