import { join } from 'node:path';
import { AppError, errorText } from '@platform/kit/errors';
import { homeFolder } from '@platform/kit/home';
import { root } from './commands/index.ts';
import { createContext } from './framework/create-context.ts';
import type { FlagDefs, Given } from './framework/definition.ts';
import { type GlobalFlags, globalFlags } from './framework/globals.ts';
import { type Io, note } from './framework/io.ts';
import { parseArguments } from './framework/parse.ts';
import { serverWarnings } from './framework/server-warnings.ts';
import { closest, type Found, findCommand } from './framework/tree.ts';

declare global {
  /**
   * Set in the single executable, whose first part has only what talks to a server: starts the whole program. It is also
   * what a command throws that is not in the first part.
   */
  var PLATFORM_RUN_WHOLE: (() => void) | undefined;
}

export interface Invocation {
  argv: readonly string[];
  env: NodeJS.ProcessEnv;
  io: Io;
  signal: AbortSignal;
}

/** A command's own exit code, for `coder ssh` and the like, without a message. */
export class ExitError extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`exit ${code}`);
    this.name = 'ExitError';
    this.code = code;
  }
}

/** Runs one command line and returns its exit code. Errors become one or two sentences on stderr; never rejects but with PLATFORM_RUN_WHOLE. */
export async function run(invocation: Invocation): Promise<number> {
  const { env, io, signal } = invocation;
  const argv = askedByGit(invocation.argv) ? ['gitaskpass', ...invocation.argv] : invocation.argv;
  try {
    const before = argv.includes('--') ? argv.slice(0, argv.indexOf('--')) : argv;
    const found = findCommand(root, argv, takesValue);
    if (found.path.length === 0 && before.includes('--version')) found.path.push('version');
    const node = found.path[0] === 'version' ? root.children!['version']! : found.node;
    if (!node.load) return await withoutCommand(found, io);
    const command = (await node.load()).default;
    const { definition } = command;
    const own: FlagDefs = { ...definition.flags, ...(await definition.loadFlags?.()) };
    const flags = { ...globalFlags, ...own };
    if (wantsHelp(found, definition.rawAfter)) {
      io.stdout.write(await help(found, own, definition));
      return 0;
    }
    const given = parseArguments({ flags, argv: found.rest, env, rawAfter: definition.rawAfter });
    checkArguments(found.path, definition.args ?? '', given.args, node.children !== undefined, found);
    const globals = (given as Given<GlobalFlags>).flags;
    const warnings = serverWarnings(io, {
      noVersion: globals['no-version-warning'],
      noFeature: globals['no-feature-warning'],
    });
    const ctx = createContext({ env, io, signal, globals, home: homeFolder(env), warnings });
    if (given.flags['debug-options']) {
      io.stdout.write(`${JSON.stringify({ args: given.args, flags: shown(flags, given) }, null, 2)}\n`);
      return 0;
    }
    try {
      return (await command.run(ctx, given)) ?? 0;
    } finally {
      await warnings.told();
    }
  } catch (err) {
    if (err !== undefined && err === globalThis.PLATFORM_RUN_WHOLE) throw err;
    return await report(err, io, signal);
  }
}

/** Git runs the program of GIT_ASKPASS with nothing but its question. */
function askedByGit(argv: readonly string[]): boolean {
  return argv.length === 1 && /^(Username|Password) for '/.test(argv[0]!);
}

function shown(flags: FlagDefs, given: Given): Record<string, unknown> {
  const secret = /token|password|psk|^key$|postgres-url/;
  return Object.fromEntries(
    Object.keys(flags).map((name) => [name, secret.test(name) && given.texts[name] ? '***' : given.flags[name]]),
  );
}

function takesValue(flag: string): boolean {
  const name = flag.replace(/^--?/, '');
  if (name === 'O' || name === 'org') return true;
  const defs: FlagDefs = globalFlags;
  return (defs[name]?.type ?? 'bool') !== 'bool';
}

function wantsHelp(found: Found, rawAfter: number | undefined): boolean {
  let positionals = 0;
  for (const word of found.rest) {
    if (word === '--') return false;
    if (word === '--help' || word === '-h') return true;
    if (!word.startsWith('-')) positionals++;
    if (rawAfter !== undefined && positionals > rawAfter) return false;
  }
  return false;
}

async function help(found: Found, flags: FlagDefs, definition?: import('./framework/definition.ts').Definition) {
  const { helpText } = await import('./framework/help.ts');
  const { VERSION } = await import('@platform/kit/version');
  const isRoot = found.path.length === 0;
  return helpText({
    version: VERSION,
    path: found.path,
    node: found.node,
    definition,
    flags: isRoot ? globalFlags : flags,
    isRoot,
  });
}

async function withoutCommand(found: Found, io: Io): Promise<number> {
  const word = found.rest.find((text) => !text.startsWith('-'));
  if (word === undefined || word === 'help') {
    io.stdout.write(await help(found, {}));
    return 0;
  }
  throw unknownCommand(found, word);
}

function unknownCommand(found: Found, word: string): AppError {
  const near = closest(found.node, word);
  const prefix = ['coder', ...found.path].join(' ');
  const hint =
    near.length > 0
      ? ` Did you mean ${near.map((name) => `\`${prefix} ${name}\``).join(' or ')}?`
      : ` See \`${prefix} --help\`.`;
  return new AppError('invalid', `Unknown command ${JSON.stringify(word)} for \`${prefix}\`.${hint}`);
}

function checkArguments(path: string[], spec: string, args: string[], isGroup: boolean, found: Found): void {
  if (isGroup && spec === '' && args.length > 0) throw unknownCommand(found, args[0]!);
  const slots = spec.match(/<[^>]+>|\[[^\]]+\]/g) ?? [];
  const least = slots.filter((slot) => slot.startsWith('<')).length;
  const most = slots.some((slot) => slot.includes('...')) ? Number.POSITIVE_INFINITY : slots.length;
  if (args.length >= least && args.length <= most) return;
  const usage = ['coder', ...path, spec].join(' ').trim();
  if (args.length < least) throw new AppError('invalid', `Missing ${slots[args.length]}. Usage: ${usage}`);
  throw new AppError('invalid', `Too many arguments, from ${JSON.stringify(args[most])} on. Usage: ${usage}`);
}

async function report(err: unknown, io: Io, signal: AbortSignal): Promise<number> {
  if (err instanceof ExitError) return err.code;
  if (signal.aborted) {
    note(io, 'Canceled.');
    return 130;
  }
  const { ApiError, apiErrorText } = await import('@platform/client');
  note(io, `error: ${err instanceof ApiError ? apiErrorText(err) : text(err)}`);
  return 1;
}

function text(err: unknown): string {
  if (err instanceof AppError && err.detail) return `${err.message} ${err.detail}`;
  return errorText(err);
}

/** A path that may begin with `~/`. */
export function expandHome(path: string, env: NodeJS.ProcessEnv): string {
  return path === '~' ? homeFolder(env) : path.startsWith('~/') ? join(homeFolder(env), path.slice(2)) : path;
}
