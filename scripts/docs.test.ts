import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';

const root = dirname(import.meta.dirname);
const tracked = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
  .split('\0')
  .filter((file) => file !== '');
/** Every committed file and every folder with one, as paths from the root. */
const paths = new Set(['.', ...tracked.flatMap(withParents)]);
const names = new Set(tracked.map((file) => file.slice(file.lastIndexOf('/') + 1)));
const packages = [...paths].filter((path) => /^packages\/[^/]+$/.test(path));
/** First segments of paths from the root, and of paths from the `src` folder of a package. */
const tops = new Set(tracked.filter((file) => file.includes('/')).map((file) => file.slice(0, file.indexOf('/'))));
const sources = new Set([...paths].flatMap((path) => /^packages\/[^/]+\/src\/([^/]+)$/.exec(path)?.[1] ?? []));

/** Pages that describe the checkout as it is. The changelog describes earlier ones. */
const pages = tracked.filter((file) => file.endsWith('.md') && file !== 'CHANGELOG.md');

function withParents(path: string): string[] {
  const parts = path.split('/');
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'));
}

interface Page {
  /** The text without fenced blocks. */
  text: string;
  /** The text without fenced blocks and code spans. */
  prose: string;
  anchors: ReadonlySet<string>;
}

const read = new Map<string, Page>();
function pageOf(file: string): Page {
  const found = read.get(file);
  if (found) return found;
  const text = readFileSync(join(root, file), 'utf8').replace(/^ *(```|~~~).*?^ *\1 *$/gms, '');
  const made = { text, prose: text.replace(/`[^`]*`/g, '``'), anchors: anchorsOf(text) };
  read.set(file, made);
  return made;
}

/** The anchors of headings as GitHub makes them, and explicit ones. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set([...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id]) => id!));
  for (const [, heading] of text.matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const plain = heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const anchor = plain.replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '').replaceAll(' ', '-');
    let unique = anchor;
    for (let i = 1; anchors.has(unique); i++) unique = `${anchor}-${i}`;
    anchors.add(unique);
  }
  return anchors;
}

/** What is wrong with the target of a link in this file. Undefined if it is right, or not in the repository. */
function linkProblem(file: string, target: string): string | undefined {
  if (/^[a-z][a-z\d+.-]*:|^\//i.test(target)) return undefined;
  const [path = '', anchor] = target.split('#');
  const to = path === '' ? file : normalize(join(dirname(file), decodeURIComponent(path))).replace(/\/$/, '');
  if (!paths.has(to)) return `${file}: ${target} does not exist`;
  if (anchor !== undefined && to.endsWith('.md') && !pageOf(to).anchors.has(decodeURIComponent(anchor)))
    return `${file}: ${target}: ${to} has no such heading`;
  return undefined;
}

/** Whether the text of a code span names a path of the repository, as far as one can see. */
function namesPath(text: string): boolean {
  if (!/^[\w.@-]+(\/[\w.@-]+)*\/?$/.test(text)) return false;
  if (!text.includes('/')) return /\.(ts|tsx|mjs)$/.test(text) && !text.startsWith('.');
  const first = text.slice(0, text.indexOf('/'));
  return tops.has(first) || (sources.has(first) && /(\.(tsx?|mjs|json|sql|sh|md)|\/)$/.test(text));
}

/** Whether .gitignore excludes a file or folder, because a program creates it. */
const isIgnored = (path: string): boolean =>
  spawnSync('git', ['check-ignore', '--no-index', path, `${path}/`], { cwd: root }).status === 0;

function pathExists(file: string, text: string): boolean {
  const path = text.replace(/\/$/, '');
  if (!text.includes('/')) return names.has(path);
  const places = ['.', dirname(file), ...packages.flatMap((one) => [one, `${one}/src`])];
  return places.some((place) => paths.has(normalize(join(place, path)))) || isIgnored(path);
}

test('links between pages lead to files and headings that exist', () => {
  let count = 0;
  const problems = pages.flatMap((file) =>
    [...pageOf(file).prose.matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)|^\[[^\]]+\]: +(\S+)/gm)].flatMap((found) => {
      count++;
      return linkProblem(file, (found[1] ?? found[2])!) ?? [];
    }),
  );
  assert.deepEqual(problems, []);
  assert.ok(count > 300, `${count} links`);
});

test('paths of the repository that pages name exist', () => {
  const named = pages.flatMap((file) =>
    [...pageOf(file).text.matchAll(/`([^`\n]+)`/g)].map((found) => [file, found[1]!] as const),
  );
  const checked = named.filter(([, text]) => namesPath(text));
  assert.deepEqual(
    checked.filter(([file, text]) => !pathExists(file, text)).map(([file, text]) => `${file}: ${text} does not exist`),
    [],
  );
  assert.ok(checked.length > 200, `${checked.length} paths`);
});

test('files of the repository that comments name exist', () => {
  const FILE = /(?<![\w./…<@*-])[\w-]+(?:\/[\w.-]+)*\.(?:tsx?|mjs|md)\b/g;
  const code = tracked.filter((file) => /\.(tsx?|mjs)$/.test(file) && !file.includes('/gen/'));
  const checked = code.flatMap((file) => {
    const comments = readFileSync(join(root, file), 'utf8').matchAll(/(?:^|\s)(?:\/\/|\/?\*).*$/gm);
    return [...comments].flatMap(([text]) =>
      /https?:/.test(text) ? [] : [...text.matchAll(FILE)].map(([path]) => [file, path] as const),
    );
  });
  // the name of a file alone can be that of somebody else's file
  const missing = checked.filter(([file, path]) => path.includes('/') && !pathExists(file, path));
  assert.deepEqual(
    missing.map(([file, path]) => `${file}: ${path} does not exist`),
    [],
  );
  assert.ok(checked.length > 50, `${checked.length} files`);
});

test('finds what is wrong in links and paths', () => {
  assert.equal(linkProblem('docs/agents.md', 'https://example.com/x'), undefined);
  assert.equal(linkProblem('docs/agents.md', '../CONTRIBUTING.md#release-a-version'), undefined);
  assert.match(linkProblem('docs/agents.md', '../CONTRIBUTING.md#release')!, /no such heading/);
  assert.match(linkProblem('docs/agents.md', 'agent.md')!, /does not exist/);
  const missing = (text: string) => namesPath(text) && !pathExists('docs/agents.md', text);
  for (const path of ['packages/kit/src/errors.ts', 'http/errors.ts', 'docs/agents.md', 'docs/recipes/', 'errors.ts'])
    assert.ok(namesPath(path) && !missing(path), path);
  for (const path of ['packages/kit/src/error.ts', 'http/relays.ts', 'docs/agent.md', 'docs/recipe/', 'errorz.ts'])
    assert.ok(missing(path), path);
  for (const other of [
    '/etc/hosts',
    '~/.config/coder',
    'docs/<name>.md',
    'packages/*/src',
    'http/protobuf',
    'a b/c.ts',
  ])
    assert.ok(!namesPath(other), other);
});
