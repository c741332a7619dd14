import type { Node } from './context.ts';

export interface Found {
  node: Node;
  /** Names from the root, without aliases. */
  path: string[];
  /** The words after the path, and the flags between its names. */
  rest: string[];
}

/** Follows the words of a command line down the tree. Flags between the words stay in `rest`. */
export function findCommand(root: Node, argv: readonly string[], takesValue: (flag: string) => boolean): Found {
  let node = root;
  const path: string[] = [];
  const rest: string[] = [];
  let i = 0;
  for (; i < argv.length && node.children; i++) {
    const word = argv[i]!;
    if (word === '--') break;
    if (word.startsWith('-') && word !== '-') {
      rest.push(word);
      if (!word.includes('=') && takesValue(word) && i + 1 < argv.length) rest.push(argv[++i]!);
      continue;
    }
    const name = childName(node, word);
    if (name === undefined) break;
    path.push(name);
    node = node.children[name]!;
  }
  return { node, path, rest: [...rest, ...argv.slice(i)] };
}

function childName(node: Node, word: string): string | undefined {
  const children = node.children ?? {};
  if (Object.hasOwn(children, word)) return word;
  return Object.keys(children).find((name) => children[name]!.aliases?.includes(word));
}

/** The names of a node's children that are closest to a mistyped word. */
export function closest(node: Node, word: string): string[] {
  return Object.entries(node.children ?? {})
    .filter(([, child]) => !child.hidden)
    .flatMap(([name, child]) => [name, ...(child.aliases ?? [])].map((text) => ({ name, away: distance(text, word) })))
    .filter(({ name, away }) => away <= Math.max(1, Math.floor(Math.min(name.length, word.length) / 3)))
    .sort((a, b) => a.away - b.away)
    .map(({ name }) => name)
    .filter((name, at, all) => all.indexOf(name) === at)
    .slice(0, 3);
}

/** Levenshtein. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length]!;
}
