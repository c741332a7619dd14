import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signInErrorIn } from './sign-in-error.ts';

const cookie = (value: unknown) => `a=b; coder_sign_in_error=${encodeURIComponent(JSON.stringify(value))}; c=d`;

test('reads the error of a sign-in from the cookies', () => {
  assert.deepEqual(signInErrorIn(cookie({ message: 'No; really.', detail: 'é' })), {
    message: 'No; really.',
    detail: 'é',
    markdown: false,
  });
  assert.equal(signInErrorIn(cookie({ message: 'x', markdown: true }))?.markdown, true);
});

test('ignores cookies that the server did not write', () => {
  for (const value of [null, 1, {}, { message: 1 }, { message: '' }])
    assert.equal(signInErrorIn(cookie(value)), undefined);
  for (const text of ['', 'coder_sign_in_error=%', 'coder_sign_in_error=x', 'x_coder_sign_in_error=1'])
    assert.equal(signInErrorIn(text), undefined);
});

test('reads the error of another page from its own cookie', () => {
  const cookies = `coder_external_auth_error=${encodeURIComponent('{"message":"Declined."}')}`;
  assert.equal(signInErrorIn(cookies, '/external-auth')?.message, 'Declined.');
  assert.equal(signInErrorIn(cookies), undefined);
});
