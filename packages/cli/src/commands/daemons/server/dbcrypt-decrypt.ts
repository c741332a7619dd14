import { command } from '../../../framework/definition.ts';
import { printDone } from '../../../framework/io.ts';
import { yesFlag } from '../../../lib/flags.ts';
import { confirm } from '../../../lib/prompt.ts';
import { databaseFlags, databaseOf } from './direct.ts';

const flags = {
  ...databaseFlags,
  keys: {
    type: 'string[]',
    env: 'CODER_EXTERNAL_TOKEN_ENCRYPTION_DECRYPT_KEYS',
    required: true,
    description: 'Keys of the secrets, separated by commas.',
  },
  ...yesFlag,
} as const;

export default command(
  {
    flags,
    help:
      'Stores all secrets without encryption, or changes none if it fails. Afterwards, remove the keys from the ' +
      'options of the servers.',
  },
  async (ctx, { flags: given }) => {
    await confirm(ctx, 'Store all secrets in the database without encryption?', given.yes);
    const { decryptSecrets, onDatabase } = await import('@ropewalk/server');
    const count = await onDatabase(databaseOf(ctx, given, 'decrypt secrets'), (direct) =>
      decryptSecrets(direct, given.keys),
    );
    printDone(ctx, `${count} secrets are stored without encryption now.`);
  },
);
