import { randomBytes } from 'node:crypto';
import { accessSync, constants, existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { AppError } from '@ropewalk/kit/errors';
import { homeFolder } from '@ropewalk/kit/home';
import { writeConfig } from '../../framework/config-dir.ts';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, print, printDone } from '../../framework/io.ts';
import { expandHome } from '../../lib/expand-home.ts';
import { yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';
import { asideName, linkDotfiles } from './link.ts';
import { askGit, git, runProgram } from './program.ts';

/** The command runs the first of these that the repository contains. */
const SCRIPTS = [
  'install.sh',
  'install',
  'bootstrap.sh',
  'bootstrap',
  'script/bootstrap',
  'setup.sh',
  'setup',
  'script/setup',
];

const flags = {
  'symlink-dir': {
    type: 'string',
    env: 'CODER_SYMLINK_DIR',
    description: 'Directory for the symbolic links. Default: your home directory.',
  },
  branch: { type: 'string', short: 'b', description: "Branch to check out. Default: the repository's default branch." },
  'repo-dir': {
    type: 'string',
    env: 'CODER_DOTFILES_REPO_DIR',
    default: 'dotfiles',
    description: 'Directory for the clone, relative to the configuration directory.',
  },
  ...yesFlag,
} as const;

const help =
  'Clones or updates the repository, then runs the first of these scripts that the repository contains: ' +
  `${SCRIPTS.join(', ')}. Without such a script, creates a symbolic link in your home directory for each dotfile. ` +
  'Renames existing files and never overwrites them.';

export default command(
  { args: { url: { usage: 'git_repo_url' } }, flags, help },
  async (ctx, { args, flags: given }) => {
    const url = existsSync(args.url) ? resolve(args.url) : args.url;
    for (const [what, text] of [
      ['The URL', url],
      ['--branch', given.branch],
    ] as const) {
      if (text.startsWith('-')) throw new AppError('invalid', `${what} cannot begin with "-": ${JSON.stringify(text)}`);
    }
    const dir = resolve(ctx.configDir, given['repo-dir']);
    // the configuration directory itself, which holds the session token, or a parent of it
    if (!relative(dir, resolve(ctx.configDir)).startsWith('..')) {
      throw new AppError(
        'invalid',
        `Invalid --repo-dir ${JSON.stringify(given['repo-dir'])}: it must be a separate directory inside the configuration directory.`,
      );
    }
    const into = given['symlink-dir'] === '' ? homeFolder(ctx.env) : resolve(expandHome(given['symlink-dir'], ctx.env));
    await confirm(ctx, `Apply the dotfiles of ${withoutPassword(url)} to ${into}?`, given.yes);
    if (
      existsSync(join(dir, '.git')) &&
      (await askGit(ctx, ['-C', dir, 'config', '--get', 'remote.origin.url'])) === url
    ) {
      await pull(ctx, dir, given.branch);
    } else {
      await clone(ctx, url, dir, given.branch);
    }
    writeConfig(join(ctx.configDir, 'dotfilesurl'), url);
    const script = SCRIPTS.find((name) => statSync(join(dir, name), { throwIfNoEntry: false })?.isFile());
    if (script !== undefined) {
      await install(ctx, dir, script, given.yes);
      return;
    }
    const { linked, kept } = linkDotfiles(dir, into);
    for (const [from, to] of kept) note(ctx.io, `Renamed ${from} to ${to}`);
    print(
      ctx.io,
      linked.length === 0
        ? `Nothing to do: the repository has no install script, and all its dotfiles are linked in ${into}.`
        : `Linked in ${into}: ${linked.join(', ')}`,
    );
  },
);

async function clone(ctx: Context, url: string, dir: string, branch: string): Promise<void> {
  note(ctx.io, `Cloning ${withoutPassword(url)} into ${dir}`);
  // renamed only when it is complete
  const partial = `${dir}.${randomBytes(6).toString('hex')}.tmp`;
  ensureDirectorySync(dirname(dir), { mode: 0o700 });
  try {
    const options = branch === '' ? [] : ['--branch', branch];
    await git(ctx, ['clone', ...options, '--', url, partial], 'Could not clone the repository.');
    if (existsSync(dir) && readdirSync(dir).length > 0) {
      const aside = asideName(dir);
      renameSync(dir, aside);
      note(ctx.io, `Renamed the previous ${dir} to ${aside}`);
    }
    renameSync(partial, dir);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}

async function pull(ctx: Context, dir: string, branch: string): Promise<void> {
  note(ctx.io, `Updating ${dir}`);
  await git(ctx, ['-C', dir, 'fetch', 'origin'], 'Could not fetch the repository.');
  if (branch !== '') {
    await git(ctx, ['-C', dir, 'checkout', branch, '--'], `Could not check out the branch ${branch} in ${dir}.`);
  }
  // a tag does not change
  if ((await askGit(ctx, ['-C', dir, 'symbolic-ref', '--quiet', 'HEAD'])) === '') return;
  await git(
    ctx,
    ['-C', dir, 'merge', '--ff-only', '@{upstream}'],
    `Could not update ${dir}: it has local changes. Push or revert them.`,
  );
}

async function install(ctx: Context, dir: string, script: string, yes: boolean): Promise<void> {
  await confirm(ctx, `Run ${script} of the repository?`, yes);
  note(ctx.io, `Running ${script}`);
  const path = join(dir, script);
  let command = [path];
  try {
    accessSync(path, constants.X_OK);
  } catch {
    // a changed mode would be a change of the repository and block the next pull
    command = ['/bin/sh', path];
  }
  const code = await runProgram(ctx, command[0]!, command.slice(1), { cwd: dir });
  if (code !== 0) {
    throw new AppError('unavailable', `${script} ${code === undefined ? 'was killed' : `exited with code ${code}`}.`);
  }
  printDone(ctx, `${script} has finished.`);
}

const withoutPassword = (url: string) => url.replace(/(:\/\/[^/@:]*):[^/@]*@/, '$1:***@');
