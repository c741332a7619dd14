import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { agentClient } from './agent-client.ts';
import { ownKeys, runSsh } from './run-ssh.ts';

/** The exit code of ssh when it cannot connect or sign in. */
const SSH_FAILED = 255;

/**
 * `GIT_SSH_COMMAND` of a workspace: ssh with the user's own keys and the Git key of the workspace's owner. That
 * key is in a file that only this user can read, and only while ssh runs.
 */
export default command(
  { args: { ssh: { usage: 'ssh arguments', rest: true, optional: true, raw: true } } },
  async (ctx, { args: { ssh: args } }) => {
    if (args.length === 0)
      throw new AppError('invalid', 'Missing ssh arguments. Git normally runs this command for you.');
    const client = await agentClient(ctx);
    const [{ private_key: key, public_key: pub }, own] = await Promise.all([
      client.call('GET /workspaceagents/me/gitsshkey'),
      ownKeys(ctx, args),
    ]);
    const dir = await mkdtemp(join(tmpdir(), 'gitssh-'));
    try {
      const file = join(dir, 'key');
      await writeFile(file, key.endsWith('\n') ? key : `${key}\n`, { mode: 0o600 });
      const identities = [...own, file].flatMap((path) => ['-i', path]);
      const code = await runSsh(ctx, [...identities, ...args]);
      if (code === SSH_FAILED) {
        note(
          ctx.io,
          `\nssh failed. If access was denied, register your public key with your Git host:\n\n${pub.trim()}\n`,
        );
      }
      return code;
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  },
);
