import { AppError, errorText } from '@ropewalk/kit/errors';
import { homeFolder } from '@ropewalk/kit/home';
import { root } from './commands/index.ts';
import { bindArguments, checkRequired, rawAfter } from './framework/arguments.ts';
import { createContext } from './framework/create-context.ts';
import { flagsBetweenNames, type GlobalFlags, globalFlags } from './framework/globals.ts';
import { type Io, note, print, write } from './framework/io.ts';
import { parseArguments, takesValue } from './framework/parse.ts';
import { serverWarnings } from './framework/server-warnings.ts';
import { styleOf, widthOf } from './framework/style.ts';
import { closest, type Found, findCommand } from './framework/tree.ts';
import type { Definition, FlagDefs, Given, ValuesOf } from './framework/types.ts';

/** A person waits for the shell, and the shell for this. */
const COMPLETION_PATIENCE_MS = 2_000;

export interface Invocation {
  argv: readonly string[];
  env: NodeJS.ProcessEnv;
  io: Io;
  signal: AbortSignal;
}

/** Runs one command line and returns its exit code. Writes errors to stderr. */
export async function run(invocation: Invocation): Promise<number> {
  const { env, io, signal } = invocation;
  if (env['COMPLETION_MODE'] === '1') return complete(invocation);
  const argv = askedByGit(invocation.argv) ? ['gitaskpass', ...invocation.argv] : invocation.argv;
  try {
    const before = argv.includes('--') ? argv.slice(0, argv.indexOf('--')) : argv;
    const found = findCommand(root, argv, (word) => takesValue(flagsBetweenNames, word));
    if (found.path.length === 0 && before.includes('--version')) found.path.push('version');
    const node = found.path[0] === 'version' ? root.children!['version']! : found.node;
    if (!node.load) return await withoutCommand(invocation, found);
    const command = (await node.load()).default;
    const { definition } = command;
    const own: FlagDefs = { ...definition.flags, ...(await definition.loadFlags?.()) };
    const flags = { ...globalFlags, ...own };
    const raw = rawAfter(definition);
    if (wantsHelp(found, raw)) {
      write(io.stdout, await help(invocation, found, own, definition));
      return 0;
    }
    const { words, texts, isSet, ...parsed } = parseArguments({ flags, argv: found.rest, env, rawAfter: raw });
    if (node.children && !definition.args && words.length > 0) throw unknownCommand(found, words[0]!);
    const args = bindArguments(found.path, definition, words);
    checkRequired(found.path, definition, own, (name) => isSet(name) && texts[name] !== '');
    const globals = parsed.flags as ValuesOf<GlobalFlags>;
    const warnings = serverWarnings(io, {
      noVersion: globals['no-version-warning'],
      noFeature: globals['no-feature-warning'],
    });
    const program = {
      root,
      run: (other: readonly string[], otherEnv: NodeJS.ProcessEnv) => run({ argv: other, env: otherEnv, io, signal }),
    };
    const ctx = createContext({ env, io, signal, globals, home: homeFolder(env), warnings, program, isSet });
    if (globals['debug-options']) {
      print(io, JSON.stringify({ args: words, flags: shown(flags, parsed.flags, texts) }, null, 2));
      return 0;
    }
    const given = { args, flags: parsed.flags, texts, isSet } as Given;
    try {
      return (await command.run(ctx, given)) ?? 0;
    } finally {
      await warnings.written();
    }
  } catch (err) {
    return await report(err, invocation);
  }
}

/** Prints the words that can follow, for shells. Without an answer of the server in two seconds there are none. */
async function complete({ argv, env, io, signal }: Invocation): Promise<number> {
  const { completions } = await import('./framework/complete.ts');
  const { flags, isSet } = parseArguments({ flags: globalFlags, argv: [], env });
  const ctx = createContext({
    env,
    io,
    signal: AbortSignal.any([signal, AbortSignal.timeout(COMPLETION_PATIENCE_MS)]),
    globals: flags as ValuesOf<GlobalFlags>,
    home: homeFolder(env),
    warnings: serverWarnings(io, { noVersion: true, noFeature: true }),
    program: { root, run: async () => 1 },
    isSet,
  });
  // a shell that shows an error in the middle of a command line helps nobody
  const found = await completions(root, argv, () => ctx.client()).catch(() => []);
  for (const word of found) print(io, word);
  return 0;
}

/** Whether Git runs this as its GIT_ASKPASS program: the only argument is a question. */
function askedByGit(argv: readonly string[]): boolean {
  return argv.length === 1 && /^(Username|Password) for '/.test(argv[0]!);
}

function shown(flags: FlagDefs, values: ValuesOf<FlagDefs>, texts: Record<string, string>): Record<string, unknown> {
  const secret = /token|password|psk|^key$|postgres-url/;
  return Object.fromEntries(
    Object.keys(flags).map((name) => [name, secret.test(name) && texts[name] ? '***' : values[name]]),
  );
}

function wantsHelp(found: Found, raw: number | undefined): boolean {
  let positionals = 0;
  for (const word of found.rest) {
    if (word === '--') return false;
    if (word === '--help' || word === '-h') return true;
    if (!word.startsWith('-')) positionals++;
    if (raw !== undefined && positionals > raw) return false;
  }
  return false;
}

async function help({ env, io }: Invocation, found: Found, flags: FlagDefs, definition?: Definition): Promise<string> {
  const { helpText } = await import('./framework/help.ts');
  const { VERSION } = await import('@ropewalk/kit/version');
  const isRoot = found.path.length === 0;
  return helpText({
    version: VERSION,
    path: found.path,
    node: found.node,
    definition,
    flags: isRoot ? globalFlags : flags,
    isRoot,
    width: widthOf(io.stdout),
    style: styleOf(io.stdout, env),
  });
}

async function withoutCommand(invocation: Invocation, found: Found): Promise<number> {
  const word = found.rest.find((text) => !text.startsWith('-'));
  if (word === undefined || word === 'help') {
    write(invocation.io.stdout, await help(invocation, found, {}));
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

async function report(err: unknown, { env, io, signal }: Invocation): Promise<number> {
  if (signal.aborted) {
    note(io, 'Canceled.');
    return 130;
  }
  const { ApiError, apiErrorText } = await import('@ropewalk/client');
  note(
    io,
    `${styleOf(io.stderr, env)(['red', 'bold'], 'error:')} ${err instanceof ApiError ? apiErrorText(err) : text(err)}`,
  );
  return 1;
}

function text(err: unknown): string {
  if (err instanceof AppError && err.detail) return `${err.message} ${err.detail}`;
  return errorText(err);
}
