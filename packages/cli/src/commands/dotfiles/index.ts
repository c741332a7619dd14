import { randomBytes } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { AppError } from '@platform/kit/errors';
import { homeFolder } from '@platform/kit/home';
import { writeConfig } from '../../framework/config-dir.ts';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, print, printDone } from '../../framework/io.ts';
import { expandHome } from '../../lib/expand-home.ts';
import { yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';
import { asideName, linkDotfiles } from './link.ts';
import { askGit, git, runProgram } from './program.ts';

/** The first that the repository has is run. */
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
      if (text.startsWith('-'))
        throw new AppError('invalid', `${what} can not begin with "-": ${JSON.stringify(text)}`);
    }
    const dir = resolve(ctx.configDir, given['repo-dir']);
    // the configuration itself, with its session token, or what it is in
    if (!relative(dir, resolve(ctx.configDir)).startsWith('..')) {
      throw new AppError('invalid', `--repo-dir ${given['repo-dir']}: it must be a directory of its own.`);
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
    for (const [from, to] of kept) note(ctx.io, `${from} is kept as ${to}`);
    print(
      ctx.io,
      linked.length === 0
        ? `Nothing to do: the repository has no install script, and no dotfile that is not linked in ${into}.`
        : `Linked in ${into}: ${linked.join(', ')}`,
    );
  },
);

async function clone(ctx: Context, url: string, dir: string, branch: string): Promise<void> {
  note(ctx.io, `Cloning ${withoutPassword(url)} into ${dir}`);
  // under its name only when it is whole
  const partial = `${dir}.${randomBytes(6).toString('hex')}.tmp`;
  mkdirSync(dirname(dir), { recursive: true, mode: 0o700 });
  try {
    const options = branch === '' ? [] : ['--branch', branch];
    await git(ctx, ['clone', ...options, '--', url, partial], 'The repository could not be cloned.');
    if (existsSync(dir) && readdirSync(dir).length > 0) {
      const aside = asideName(dir);
      renameSync(dir, aside);
      note(ctx.io, `${dir} held something else, which is now ${aside}`);
    }
    renameSync(partial, dir);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}

async function pull(ctx: Context, dir: string, branch: string): Promise<void> {
  note(ctx.io, `Pulling what is new into ${dir}`);
  await git(ctx, ['-C', dir, 'fetch', 'origin'], 'What is new could not be fetched.');
  if (branch !== '') {
    await git(ctx, ['-C', dir, 'checkout', branch, '--'], `The branch ${branch} could not be checked out in ${dir}.`);
  }
  // a tag stays what it is
  if ((await askGit(ctx, ['-C', dir, 'symbolic-ref', '--quiet', 'HEAD'])) === '') return;
  await git(
    ctx,
    ['-C', dir, 'merge', '--ff-only', '@{upstream}'],
    `${dir} has changes of its own that the repository has not: push them, or take them back.`,
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
    // changing its mode would be a change of the repository, in the way of the next pull
    command = ['/bin/sh', path];
  }
  const code = await runProgram(ctx, command[0]!, command.slice(1), { cwd: dir });
  if (code !== 0) {
    throw new AppError('unavailable', `${script} ${code === undefined ? 'was killed' : `ended with ${code}`}.`);
  }
  printDone(ctx, `${script} has been run.`);
}

const withoutPassword = (url: string) => url.replace(/(:\/\/[^/@:]*):[^/@]*@/, '$1:***@');
