import type { Client } from '@ropewalk/client';
import { ownValue } from '@ropewalk/kit/own-value';
import type { Node } from './context.ts';
import { flagsBetweenNames, globalFlags } from './globals.ts';
import { flagOf, parseArguments, takesValue } from './parse.ts';
import { findCommand } from './tree.ts';
import type { Definition, FlagDefs } from './types.ts';

/** More names than these help nobody. */
const MAX_NAMES = 200;

/** The names on the server that the value of an argument or flag of this name can be. */
const NAMES: Readonly<Record<string, (client: Client) => Promise<string[]>>> = {
  workspace: async (client) => {
    const query = { q: 'owner:me', limit: MAX_NAMES, include_resources: false };
    return (await client.call('GET /workspaces', { query })).workspaces.map(({ name }) => name);
  },
  template: async (client) => (await client.call('GET /templates', {})).map(({ name }) => name),
  user: async (client) => {
    const { users } = await client.call('GET /users', { query: { limit: MAX_NAMES } });
    return users.map(({ username }) => username);
  },
  org: async (client) => (await client.call('GET /organizations', {})).map(({ name }) => name),
};

/** A command line up to the cursor. */
interface Line {
  /** The complete words. */
  before: string[];
  /** The word at the cursor, from its start to the cursor. It may be empty. */
  current: string;
  /** The flag whose value is at the cursor, with its dashes. */
  flag?: string | undefined;
}

/**
 * The words that can follow on a command line, of which `words` is the part up to the cursor. The last word is
 * incomplete and may be empty. `client` is asked only for the names of workspaces, templates, users and organizations.
 */
export async function completions(
  root: Node,
  words: readonly string[],
  client: () => Promise<Client>,
): Promise<string[]> {
  const { node, rest } = findCommand(root, words.slice(0, -1), (word) => takesValue(flagsBetweenNames, word));
  const definition = node.load ? (await node.load()).default.definition : {};
  const offered: FlagDefs = { ...globalFlags, ...definition.flags, ...(await definition.loadFlags?.()) };
  const flags = { ...flagsBetweenNames, ...offered };
  const { before, current, flag } = lineOf(flags, rest, words.at(-1) ?? '');
  const namesOf = async (name: string): Promise<readonly string[]> => {
    const names = ownValue(NAMES, name) ?? ownValue(NAMES, name.replace(/s$/, ''));
    return names ? names(await client()) : [];
  };
  const starting = (all: readonly string[], prefix = '') =>
    all.filter((one) => one.startsWith(current)).map((one) => prefix + one);
  if (flag !== undefined) {
    const [name, def] = flagOf(flags, flag)!;
    return starting(def.values ?? (await namesOf(name)), words.at(-1)!.startsWith('--') ? `${flag}=` : '');
  }
  if (current.startsWith('-')) {
    return starting(Object.entries(offered).flatMap(([name, def]) => (def.hidden ? [] : [`--${name}`])));
  }
  const { words: given } = parseArguments({ flags, argv: before, env: {} });
  const children = given.length === 0 ? visibleChildren(node) : [];
  const argument = argumentAt(definition, given.length);
  return starting([...children, ...(argument ? (argument.values ?? (await namesOf(argument.name))) : [])]);
}

/** Finds the flag at the cursor: `--flag value`, `--flag=value`, or `--flag`, `=`, `value`, as bash splits it. */
function lineOf(flags: FlagDefs, rest: readonly string[], last: string): Line {
  // PowerShell cannot pass an empty word
  const current = last === '""' ? '' : last;
  const at = current.indexOf('=');
  if (current.startsWith('--') && at > 0 && takesValue(flags, current.slice(0, at))) {
    return { before: [...rest], current: current.slice(at + 1), flag: current.slice(0, at) };
  }
  const words = current === '=' ? [...rest, '='] : [...rest];
  const value = current === '=' ? '' : current;
  const flag = words.at(-1) === '=' ? words.at(-2) : words.at(-1);
  const before = words.slice(0, words.at(-1) === '=' ? -2 : -1);
  return flag && takesValue(flags, flag) ? { before, current: value, flag } : { before: [...rest], current };
}

const visibleChildren = ({ children = {} }: Node): string[] =>
  Object.entries(children).flatMap(([name, { hidden }]) => (hidden ? [] : [name]));

function argumentAt(
  { args = {} }: Definition,
  index: number,
): { name: string; values?: readonly string[] } | undefined {
  const all = Object.entries(args);
  const [name, def] = all[index] ?? (all.at(-1)?.[1].rest ? all.at(-1)! : []);
  return name && def ? { name, ...(def.values ? { values: def.values } : {}) } : undefined;
}
