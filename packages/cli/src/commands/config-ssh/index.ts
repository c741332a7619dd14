import { join, resolve } from 'node:path';
import type { Client } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';
import { homeFolder } from '@ropewalk/kit/home';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, print, warn, write } from '../../framework/io.ts';
import type { Given, ValuesOf } from '../../framework/types.ts';
import { expandHome } from '../../lib/expand-home.ts';
import { disableAutostartFlag, waitFlag, yesFlag } from '../../lib/flags.ts';
import { searchWorkspaces } from '../../lib/pages.ts';
import { choose, confirm } from '../../lib/prompt.ts';
import { type Remembered, rememberedIn, renderBlock, splitAtBlock, withBlock } from './block.ts';
import { oneHunk } from './diff.ts';
import { behindLinks, fromByteText, readBytes, replaceFile, toByteText } from './file.ts';
import { quoteWord, sshOptions, unixPath } from './options.ts';

const flags = {
  'ssh-config-file': {
    type: 'string',
    env: 'CODER_SSH_CONFIG_FILE',
    default: '~/.ssh/config',
    description: 'SSH configuration file.',
  },
  'coder-binary-path': {
    type: 'string',
    env: 'CODER_SSH_CONFIG_BINARY_PATH',
    description: 'Path of the coder command that ssh runs. Default: this program.',
  },
  'ssh-option': {
    type: 'string[]',
    short: 'o',
    env: 'CODER_SSH_CONFIG_OPTS',
    description: 'SSH option for the hosts, as Key=value. May be repeated.',
  },
  'dry-run': {
    type: 'bool',
    short: 'n',
    env: 'CODER_SSH_DRY_RUN',
    description: 'Print the changes without making them.',
  },
  'use-previous-options': {
    type: 'bool',
    env: 'CODER_SSH_USE_PREVIOUS_OPTIONS',
    description: 'Keep the options of the previous run. Options on the command line replace them one by one.',
  },
  'ssh-host-prefix': {
    type: 'string',
    env: 'CODER_CONFIGSSH_SSH_HOST_PREFIX',
    description: 'Prefix of host names. With "", no host names with a prefix. Default: the setting of the server.',
  },
  'hostname-suffix': {
    type: 'string',
    env: 'CODER_CONFIGSSH_HOSTNAME_SUFFIX',
    description: 'Suffix of host names. With "", no host names with a suffix. Default: the setting of the server.',
  },
  wait: { ...waitFlag.wait, env: 'CODER_CONFIGSSH_WAIT' },
  ...disableAutostartFlag('CODER_CONFIGSSH_DISABLE_AUTOSTART'),
  'no-wildcard': {
    type: 'bool',
    env: 'CODER_CONFIGSSH_NO_WILDCARD',
    default: 'false',
    description:
      'Write one host for each of your workspaces, for programs that list the hosts of the file. Run the command again ' +
      'after you create or rename a workspace. Default: one pattern for all workspaces.',
  },
  'force-unix-filepaths': {
    type: 'bool',
    env: 'CODER_CONFIGSSH_UNIX_FILEPATHS',
    description: 'Write paths with / instead of \\ on Windows, for shells such as Git Bash.',
  },
  ...yesFlag,
  remove: { type: 'bool', description: 'Remove the hosts from the SSH configuration.' },
} as const;

type Flags = typeof flags;

const help =
  'Adds host names such as coder.<workspace> to your SSH configuration, so that ssh, scp, sftp, rsync and editors can ' +
  'connect to workspaces by name. Also supports coder.<workspace>.<agent> and coder.<owner>--<workspace>. Changes only ' +
  'the lines between its two marker comments.';

const examples = [
  { does: 'Add the hosts, then connect to the workspace dev', run: 'coder config-ssh && ssh coder.dev' },
  { does: 'See what would change', run: 'coder config-ssh --dry-run' },
  { does: 'Remove the hosts', run: 'coder config-ssh --remove' },
];

export default command({ flags, help, examples }, async (ctx, given) => {
  const { yes, remove, 'dry-run': dryRun } = given.flags;
  const file = behindLinks(expandHome(given.flags['ssh-config-file'], ctx.env));
  const text = readBytes(file);
  const split = splitAtBlock(text, file);
  let block = '';
  if (!remove) {
    const client = await ctx.client();
    const before = rememberedIn(fromByteText(split.block));
    block = await newBlock(ctx, given, client, await chooseOptions(ctx, given, before, split.block !== ''));
  }
  const wanted = withBlock(split, toByteText(block));
  if (wanted === text) {
    note(ctx.io, remove ? `${file} has no hosts of coder config-ssh.` : `${file} is up to date.`);
    return;
  }
  const diff = fromByteText(oneHunk(text, wanted, file));
  if (dryRun) {
    ctx.io.stdout.write(diff);
    return;
  }
  if (!yes) write(ctx.io.stderr, diff);
  await confirm(ctx, `Write these changes to ${file}?`, yes);
  // an editor may have saved it while the question was open
  if (readBytes(file) !== text)
    throw new AppError('conflict', `Another program has changed ${file} meanwhile. Run the command again.`);
  replaceFile(file, wanted);
  if (remove) {
    print(ctx.io, `Removed the hosts from ${file}.`);
    return;
  }
  warnOfOthers(ctx, fromByteText(split.before), block, file);
  const [, host] = /^Host (.*)$/m.exec(block) ?? [];
  if (host === undefined) print(ctx.io, 'You have no workspaces. Run the command again after you create one.');
  else print(ctx.io, `Wrote the hosts to ${file}. Try: ssh ${host.replace('*', '<workspace>')}`);
});

/** The options of this run. With --use-previous-options, or if the user chooses so, the previous ones where not set. */
async function chooseOptions(
  ctx: Context,
  given: Given<Flags>,
  previous: Remembered,
  written: boolean,
): Promise<Remembered> {
  const current = givenOptions(given);
  const named = new Set(current.map(([flag]) => flag));
  const merged = [...previous.filter(([flag]) => !named.has(flag as never)), ...current];
  if (given.flags['use-previous-options']) return merged;
  const text = (options: Remembered) => options.map(([flag, value]) => `--${flag}=${value}`).join(' ') || 'none';
  if (!written || given.flags.yes || given.flags['dry-run'] || text(previous) === text(current)) return current;
  const answer = await choose(
    ctx,
    'The options differ from those of the previous run. Which ones should apply?',
    [
      { value: 'new', label: `new: ${text(current)}` },
      { value: 'previous', label: `previous: ${text(previous)}` },
    ],
    'Use --use-previous-options for the previous options, or --yes for the new ones.',
  );
  return answer === 'previous' ? previous : current;
}

const REMEMBERED = [
  ...(['ssh-host-prefix', 'hostname-suffix', 'wait', 'disable-autostart', 'coder-binary-path'] as const),
  ...(['no-wildcard', 'force-unix-filepaths'] as const),
];

function givenOptions({ flags: values, isSet }: Given<Flags>): [string, string][] {
  return [
    ...REMEMBERED.filter(isSet).map((flag): [string, string] => [flag, String(values[flag])]),
    ...values['ssh-option'].map((option): [string, string] => ['ssh-option', option.trim()]),
  ];
}

async function newBlock(ctx: Context, given: Given<Flags>, client: Client, options: Remembered): Promise<string> {
  const last = (flag: (typeof REMEMBERED)[number]) => options.findLast(([name]) => name === flag)?.[1];
  const server = await client.call('GET /deployment/ssh', {});
  const prefix = hostPart(last('ssh-host-prefix') ?? server.hostname_prefix, 'prefix');
  const suffix = hostPart(last('hostname-suffix') ?? server.hostname_suffix, 'suffix').replace(/^\./, '');
  if (prefix === '' && suffix === '') {
    throw new AppError('invalid', 'Hosts need a prefix or a suffix. Set --ssh-host-prefix or --hostname-suffix.');
  }
  const wait = last('wait') ?? 'auto';
  if (!(flags.wait.values as readonly string[]).includes(wait)) {
    throw new AppError('invalid', `Invalid value --wait=${wait} of the previous run: use yes, no or auto.`);
  }
  const own = options.flatMap(([name, value]) => (name === 'ssh-option' ? [value] : []));
  return renderBlock({
    prefix,
    suffix,
    command: await coderCommand(ctx, given, {
      path: last('coder-binary-path'),
      unixPaths: last('force-unix-filepaths') === 'true',
    }),
    sshFlags: [
      ...(wait === 'auto' ? [] : [`--wait=${wait}`]),
      ...(last('disable-autostart') === 'true' ? ['--disable-autostart'] : []),
    ],
    options: sshOptions(own, server.ssh_config_options, (line) => note(ctx.io, line)),
    remembered: options,
    workspaces: last('no-wildcard') === 'true' ? await ownWorkspaces(client) : undefined,
    quoteHost: (mark) => (process.platform === 'win32' ? mark : `'${mark}'`),
  });
}

async function ownWorkspaces(client: Client): Promise<string[]> {
  const found = await searchWorkspaces(client, 'owner:me', { withResources: false });
  return found.map(({ name }) => name).sort();
}

/** Appears in a pattern and in a command line, so that it must not contain special characters of either. */
function hostPart(text: string, what: string): string {
  if (/^[A-Za-z0-9._-]*$/.test(text) && !text.startsWith('-') && !/^\.+$/.test(text)) return text;
  throw new AppError(
    'invalid',
    `Invalid ${what} of hosts ${JSON.stringify(text)}: use letters, digits, ".", "_" and "-".`,
  );
}

async function coderCommand(
  ctx: Context,
  given: Given<Flags>,
  { path, unixPaths }: { path: string | undefined; unixPaths: boolean },
): Promise<string> {
  const { selfCommand } = await import('../daemons/self.ts');
  const asPath = (text: string) => (unixPaths ? unixPath(text) : text);
  const words = path ? [asPath(expandHome(path, ctx.env))] : selfCommand().map(asPath);
  const globals = ctx.globals as ValuesOf<{ header: { type: 'string[]' }; 'header-command': { type: 'string' } }>;
  const configDir = resolve(ctx.configDir);
  if (configDir !== join(homeFolder(ctx.env), '.config/coderv2')) words.push('--global-config', asPath(configDir));
  // those of the environment also apply when ssh runs
  if (given.texts['header-command']) words.push('--header-command', globals['header-command']);
  for (const name of ['client-tls-ca-file', 'client-tls-cert-file', 'client-tls-key-file']) {
    const file = given.texts[name];
    if (file) words.push(`--${name}`, asPath(resolve(file)));
  }
  if (given.texts['header'])
    words.push(...globals.header.flatMap((header) => ['--header', `"${header.replaceAll('"', '""')}"`]));
  return words.map((word) => quoteWord(word)).join(' ');
}

/** Warns of the same hosts before our block: ssh uses the first match. */
function warnOfOthers(ctx: Context, before: string, block: string, file: string): void {
  const ours = [...block.matchAll(/^Host (.*)$/gm)].map(([, pattern]) => pattern!);
  const other = before
    .split(/\r?\n/)
    .findIndex((line) => ours.some((pattern) => line.trim().toLowerCase() === `host ${pattern}`.toLowerCase()));
  if (other < 0) return;
  warn(ctx, `line ${other + 1} of ${file} configures the same hosts and takes precedence.`);
}
