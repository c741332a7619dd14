import { join } from 'node:path';
import { AppError } from '@ropewalk/kit/errors';
import { homeFolder } from '@ropewalk/kit/home';
import { readConfig, writeConfig } from '../../framework/config-dir.ts';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, print, warn } from '../../framework/io.ts';
import { checkKeyring, writeSession } from '../../framework/session-store.ts';
import { ask } from '../../lib/prompt.ts';

const flags = {
  'first-user-email': {
    type: 'string',
    env: 'CODER_FIRST_USER_EMAIL',
    description: 'Email address of the first user, if the server has no user yet.',
  },
  'first-user-username': {
    type: 'string',
    env: 'CODER_FIRST_USER_USERNAME',
    description: 'Username of the first user.',
  },
  'first-user-full-name': {
    type: 'string',
    env: 'CODER_FIRST_USER_FULL_NAME',
    description: 'Full name of the first user.',
  },
  'first-user-password': {
    type: 'string',
    env: 'CODER_FIRST_USER_PASSWORD',
    description: 'Password of the first user.',
  },
  'first-user-trial': {
    type: 'bool',
    env: 'CODER_FIRST_USER_TRIAL',
    description: 'Request a trial license. Has no effect: all features are included.',
  },
  'use-token-as-session': {
    type: 'bool',
    description: 'Store the given session token instead of creating a new session.',
  },
} as const;

export default command(
  {
    args: { url: { optional: true } },
    flags,
    help: 'Asks for a session token from the browser. On a new server, creates the first user instead.',
    examples: [
      { does: 'Log in to a server', run: 'coder login https://coder.example.com' },
      { does: 'Log in without questions', run: 'CODER_SESSION_TOKEN=<token> coder login https://coder.example.com' },
    ],
  },
  async (ctx, { args, flags: given }) => {
    const url = serverUrl(args.url ?? (ctx.globals.url || readConfig(join(ctx.configDir, 'url'))));
    const anonymous = await ctx.clientOf(url, '');
    const first = await anonymous.raw('GET', '/users/first');
    const version = first.headers.get('x-coder-build-version');
    if (first.status !== 200 && (first.status !== 404 || !version)) {
      throw new AppError('invalid', `${url} is not a Coder server: it answered with status ${first.status}.`);
    }
    const inKeyring = await canUseKeyring(ctx, url);
    const token =
      first.status === 404
        ? await createFirstUser(ctx, url, {
            email: given['first-user-email'],
            username: given['first-user-username'],
            name: given['first-user-full-name'],
            password: given['first-user-password'],
          })
        : await sessionToken(ctx, url, given['use-token-as-session']);
    const user = await (await ctx.clientOf(url, token)).call('GET /users/{user}', { params: { user: 'me' } });
    await writeSession(ctx, { url, token, inKeyring });
    writeConfig(join(ctx.configDir, 'url'), url);
    print(ctx.io, `You are logged in to ${url} as ${user.username}.`);
    if (first.status === 404) print(ctx.io, 'Next, create a template with: coder templates init');
  },
);

/** Whether to store the token in the keyring. Warns if that was asked for and does not work here. */
async function canUseKeyring(ctx: Context, url: string): Promise<boolean> {
  if (!ctx.globals['use-keyring']) return false;
  const instead = 'The session token will be in a file that only you can read.';
  // people with several directories have several sessions at one server, and extensions of editors read the file
  if (ctx.configDir !== join(homeFolder(ctx.env), '.config/coderv2')) {
    warn(ctx, `--use-keyring has no effect with another config directory. ${instead}`);
    return false;
  }
  try {
    await checkKeyring(ctx, url);
    return true;
  } catch (err) {
    if (!(err instanceof AppError)) throw err;
    warn(ctx, `${err.message} ${instead}`);
    return false;
  }
}

function serverUrl(text: string): string {
  if (text === '') throw new AppError('invalid', 'Missing server URL. Usage: coder login <url>');
  const full = /^https?:\/\//.test(text) ? text : `https://${text}`;
  if (!URL.canParse(full)) throw new AppError('invalid', `${JSON.stringify(text)} is not a URL.`);
  return full.replace(/\/+$/, '');
}

interface FirstUser {
  email: string;
  username: string;
  name: string;
  password: string;
}

async function createFirstUser(ctx: Context, url: string, given: FirstUser): Promise<string> {
  if (ctx.interactive) note(ctx.io, 'This server has no users yet. The first user becomes its owner.');
  const username = given.username || (await ask(ctx, { text: 'Username', instead: 'set --first-user-username.' }));
  const email = given.email || (await ask(ctx, { text: 'Email', instead: 'set --first-user-email.' }));
  const password = given.password || (await newPassword(ctx));
  const anonymous = await ctx.clientOf(url, '');
  await anonymous.call('POST /users/first', {
    body: { username, email, password, ...(given.name ? { name: given.name } : {}) },
  });
  const { session_token } = await anonymous.call('POST /users/login', { body: { email, password } });
  return session_token;
}

async function newPassword(ctx: Context): Promise<string> {
  for (;;) {
    const password = await ask(ctx, { text: 'Password', instead: 'set --first-user-password.', secret: true });
    const again = await ask(ctx, { text: 'Confirm password', instead: 'set --first-user-password.', secret: true });
    if (password === again) return password;
    note(ctx.io, 'The passwords differ.');
  }
}

async function sessionToken(ctx: Context, url: string, keep: boolean): Promise<string> {
  let token = ctx.globals.token;
  if (token === '') {
    if (ctx.interactive) note(ctx.io, `Open this page in your browser to get a session token: ${url}/cli-auth`);
    token = await ask(ctx, {
      text: 'Session token',
      instead: 'set --token or CODER_SESSION_TOKEN.',
      secret: true,
    });
  }
  const client = await ctx.clientOf(url, token);
  await client.call('GET /users/{user}', { params: { user: 'me' } });
  if (keep) return token;
  return (await client.call('POST /users/{user}/keys', { params: { user: 'me' } })).key;
}
