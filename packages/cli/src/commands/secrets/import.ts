import { extname } from 'node:path';
import { AppError } from '@ropewalk/kit/errors';
import { ownValue } from '@ropewalk/kit/own-value';
import { parseSecretFile, SECRET_FILE_FORMATS, type SecretFileFormat } from '@ropewalk/rules/secret-file';
import { newSecretProblems } from '@ropewalk/rules/user-secret';
import { command } from '../../framework/definition.ts';
import { printDone, warn } from '../../framework/io.ts';
import { secretFile } from './input.ts';

const FORMATS: Readonly<Record<string, SecretFileFormat>> = {
  '.env': 'env',
  '.json': 'json',
  '.yaml': 'yaml',
  '.yml': 'yaml',
};

const flags = {
  'input-format': {
    type: 'string',
    values: SECRET_FILE_FORMATS,
    description: 'Format of the file. Default: by the ending of its name. Standard input needs it.',
  },
} as const;

const help =
  'Each name in the file becomes a secret, and the environment variable of that name if it can be one. Either all secrets are created or none, and existing ones stay as they are. With -, reads standard input.';

export default command({ args: { file: {} }, flags, help }, async (ctx, { args: { file }, flags: given }) => {
  const client = await ctx.client();
  const format = SECRET_FILE_FORMATS.find((name) => name === given['input-format']) ?? formatOf(file);
  const content = await secretFile(ctx, file);
  await checkFile(file, format, content);
  const body = { format, content };
  const made = await client.call('POST /users/{user}/secrets/batch', { params: { user: 'me' }, body });
  printDone(ctx, `Imported ${made.length} ${made.length === 1 ? 'secret' : 'secrets'}.`);
  const unused = made.filter(({ env_name: env }) => env === '').map(({ name }) => JSON.stringify(name));
  if (unused.length === 0) return;
  warn(
    ctx,
    `these names cannot be environment variables, so your workspaces do not get the secrets: ${unused.join(', ')}. ` +
      'Use them with: coder secret update <name> --env <variable> --enabled',
  );
});

function formatOf(path: string): SecretFileFormat {
  // the whole name of a file such as .env is an ending, too
  const format = ownValue(FORMATS, (extname(path) || path.slice(path.lastIndexOf('/') + 1)).toLowerCase());
  if (format) return format;
  const names = SECRET_FILE_FORMATS.join(', ');
  throw new AppError(
    'invalid',
    `The format of ${JSON.stringify(path)} is unknown. Set --input-format to one of: ${names}.`,
  );
}

/** Checks the file here: one that was chosen by mistake, such as a private key, is not sent. */
async function checkFile(path: string, format: SecretFileFormat, content: string): Promise<void> {
  const { parseAllDocuments } = await import('yaml');
  const secrets = parseSecretFile(format, content, parseAllDocuments);
  const problems = secrets.flatMap((secret) =>
    newSecretProblems(secret).map(({ detail }) => `${JSON.stringify(secret.name)}: ${detail}`),
  );
  if (problems.length > 0) throw new AppError('invalid', `${path} has wrong secrets. ${problems.join(' ')}`);
}
