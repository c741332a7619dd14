import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { containerCommand } from './container-command.ts';

/** The words that a shell passes to docker. */
const wordsOf = (line: string): string[] =>
  execFileSync('/bin/sh', ['-c', `docker() { for word; do printf '%s\\0' "$word"; done; }; ${line}`], {
    encoding: 'utf8',
  })
    .split('\0')
    .slice(0, -1);

test('passes the command and its variables as they are', () => {
  const command = `echo "it's $HOME" | wc -c; echo 'two'`;
  const env = { A: "b'c d", LANG: 'C.UTF-8' };
  assert.deepEqual(wordsOf(containerCommand({ container: 'web-1', user: 'node:staff', command, env, tty: false })), [
    ...['exec', '--interactive', '--user', 'node:staff', '--env', "A=b'c d", '--env', 'LANG=C.UTF-8'],
    ...['web-1', '/bin/sh', '-c', command],
  ]);
});

test('runs the login shell of the user without a command', () => {
  const words = wordsOf(containerCommand({ container: '0a1b2c', command: '', tty: true }));
  assert.deepEqual(words.slice(0, 6), ['exec', '--interactive', '--tty', '0a1b2c', '/bin/sh', '-c']);
  assert.match(execFileSync('/bin/sh', ['-c', words[6]!], { input: 'echo in $0\n', encoding: 'utf8' }), /in \S*sh/);
});

test('rejects a name or a user that docker would take for an option', () => {
  for (const container of ['', '-v', '--privileged', 'a b', 'a;b', 'a/b'])
    assert.throws(() => containerCommand({ container, tty: true }), { code: 'invalid' }, container);
  for (const user of ['-u', 'a b', "a'b"])
    assert.throws(() => containerCommand({ container: 'a', user, tty: true }), { code: 'invalid' }, user);
});
