import { createReadStream, openSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { AppError } from '@ropewalk/kit/errors';
import { MAX_SECRET_FILE_BYTES } from '@ropewalk/rules/secret-file';
import { MAX_SECRET_BYTES } from '@ropewalk/rules/user-secret';
import type { Context } from '../../framework/context.ts';
import { warn } from '../../framework/io.ts';
import { ask } from '../../lib/prompt.ts';

/** The flags that `coder secret create` and `coder secret update` share. */
export const secretFlags = {
  value: {
    type: 'string',
    description: 'Value of the secret. Other users of this machine may see it: use standard input instead.',
  },
  description: { type: 'string', description: 'Description of the secret.' },
  env: { type: 'string', description: 'Environment variable in your workspaces that has the value.' },
  file: {
    type: 'string',
    description:
      'File in your workspaces that has the value, such as "~/.netrc". Quotes keep your shell from replacing the ~.',
  },
} as const;

/** Reads a whole text. @throws AppError `invalid` for more bytes or other bytes than UTF-8 */
async function readText(input: Readable, max: number, what: string): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of input) {
    const bytes = Buffer.from(part as Uint8Array | string);
    parts.push(bytes);
    length += bytes.length;
    if (length > max) throw new AppError('invalid', `${what} must not exceed ${max} bytes.`);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(parts));
  } catch {
    throw new AppError('invalid', `${what} must be UTF-8 text.`);
  }
}

/**
 * The value of a secret: from --value, from standard input that is not a terminal, or, with `asks`, typed without echo.
 * Undefined if there is none.
 * @throws AppError `invalid` if there are two
 */
export async function secretValue(
  ctx: Context,
  { value }: { value: string },
  { asks }: { asks: boolean },
): Promise<string | undefined> {
  const { stdin } = ctx.io;
  const piped = stdin.isTTY ? '' : await readText(stdin, MAX_SECRET_BYTES, 'The value of a secret');
  if (piped !== '' && ctx.isSet('value'))
    throw new AppError('invalid', 'The value comes from both --value and standard input. Use one of them.');
  if (ctx.isSet('value')) return value;
  if (piped === '') {
    if (!asks) return undefined;
    return ask(ctx, {
      text: 'Value',
      secret: true,
      missing: 'Missing the value of the secret. Pipe it to standard input, or set --value.',
      check: (answer) => (answer === '' ? 'A value is required.' : undefined),
    });
  }
  // what echo adds is rarely a part of the secret
  if (/^[^\r\n]*(\r\n?|\n)$/.test(piped))
    warn(ctx, 'the value ends with a line break. Use "printf %s" to leave it out.');
  return piped;
}

/** Reads a file of secrets, or standard input for `-`. */
export async function secretFile(ctx: Context, path: string): Promise<string> {
  const { stdin } = ctx.io;
  if (path === '-') {
    if (stdin.isTTY) throw new AppError('invalid', 'Standard input is a terminal. Pipe the file of secrets to it.');
    return readText(stdin, MAX_SECRET_FILE_BYTES, 'A file of secrets');
  }
  try {
    return await readText(
      createReadStream('', { fd: openSync(path, 'r') }),
      MAX_SECRET_FILE_BYTES,
      'A file of secrets',
    );
  } catch (err) {
    if (err instanceof AppError) throw err;
    throw new AppError('invalid', `Could not read ${path}: ${(err as Error).message}`);
  }
}
