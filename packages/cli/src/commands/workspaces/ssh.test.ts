import assert from 'node:assert/strict';
import { test } from 'node:test';
import { invoke } from '../../testing/invoke.ts';

test('what ssh can not do is refused before anything is connected', async () => {
  // nothing listens there: what is refused before is not told that
  const env = { CODER_URL: 'http://127.0.0.1:1', CODER_SESSION_TOKEN: 'none' };
  const cases: [string[], NodeJS.ProcessEnv, RegExp][] = [
    [['--container', 'web'], {}, /--container.*containers of a workspace can not be entered/],
    [['--container-user', 'root'], {}, /--container-user.*containers of a workspace can not be entered/],
    [['-G'], {}, /--forward-gpg.*GPG agent can not be forwarded/],
    [['--forward-gpg', '--stdio'], {}, /--forward-gpg/],
    [[], { CODER_SSH_FORWARD_GPG: 'true' }, /CODER_SSH_FORWARD_GPG/],
  ];
  for (const [flags, more, message] of cases) {
    const { code, stdout, stderr } = await invoke(['ssh', ...flags, 'dev', 'true'], { ...env, ...more });
    assert.match(stderr, message);
    assert.match(stderr, /^error: [^\n]+\.\n$/);
    assert.deepEqual([code, stdout], [1, '']);
  }
  const allowed = await invoke(['ssh', '--forward-gpg=false', 'dev', 'true'], env);
  assert.match(allowed.stderr, /Could not reach/);
});
