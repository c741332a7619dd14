import { command } from '../../../framework/definition.ts';
import { printDone } from '../../../framework/io.ts';
import { yesFlag } from '../../../lib/flags.ts';
import { confirm } from '../../../lib/prompt.ts';
import { databaseFlags, databaseOf } from './direct.ts';

const flags = {
  ...databaseFlags,
  'new-key': {
    type: 'string',
    env: 'CODER_EXTERNAL_TOKEN_ENCRYPTION_ENCRYPT_NEW_KEY',
    required: true,
    description: 'Key to encrypt with: 32 bytes in base64.',
  },
  'old-keys': {
    type: 'string[]',
    env: 'CODER_EXTERNAL_TOKEN_ENCRYPTION_ENCRYPT_OLD_KEYS',
    description: 'Keys of the secrets that are encrypted already, separated by commas.',
  },
  ...yesFlag,
} as const;

export default command(
  {
    flags,
    help:
      'Encrypts all tokens of identity and external auth providers and all private keys for Git with a new key, ' +
      'or none if it fails. Running servers need the new key in their --external-token-encryption-keys.',
    examples: [
      {
        does: 'Encrypt all secrets for the first time',
        run: 'coder server dbcrypt rotate --new-key "$(openssl rand -base64 32)"',
      },
    ],
  },
  async (ctx, { flags: given }) => {
    await confirm(ctx, 'Encrypt all secrets in the database with the new key?', given.yes);
    const { onDatabase, rotateSecrets } = await import('@ropewalk/server');
    const count = await onDatabase(databaseOf(ctx, given, 'rotate keys'), (direct) =>
      rotateSecrets(direct, given['new-key'], given['old-keys']),
    );
    printDone(ctx, `${count} secrets have been encrypted with the new key.`);
  },
);
