import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Rolldown } from 'vite';

type Output = Rolldown.RolldownOutput['output'];

/** The sources of the page that signed-in people open first: the list of workspaces in its frame. */
const SOURCES = ['src/layouts/shell.tsx', 'src/pages/workspaces/list/list-page.tsx'];
/** What that page asks the server for together. */
const REQUESTS = [
  'workspaces?q=owner%3Ame&limit=100&offset=0',
  'users/me',
  'organizations',
  'appearance',
  'buildinfo',
].map((path) => `/api/v2/${path}`);
/** The font of all texts. Without a hint, the page is laid out twice. */
const FONT = /^assets\/inter-latin-wght-normal-.*\.woff2$/;

export interface FirstPage {
  /** The page at / and /workspaces for a browser with a session. */
  html: string;
  /** The paths of all scripts and styles that it loads. */
  files: ReadonlySet<string>;
}

/**
 * Makes the first page of a signed-in person from the general page. It paints a frame before any script has run, and
 * names all scripts and data together, which the browser would find one after the other.
 */
export function firstPage(dashboard: string, output: Output): FirstPage {
  const chunks = new Map(output.filter((file) => file.type === 'chunk').map((chunk) => [chunk.fileName, chunk]));
  const index = output.find(({ fileName }) => fileName === 'index.html');
  if (index?.type !== 'asset') throw new Error('The build of the dashboard has no index.html.');
  const general = String(index.source);
  const named = new Set([...general.matchAll(/(?:href|src)="\/(assets\/[^"]+)"/g)].map(([, file]) => file!));
  const needed = new Set(named);
  const add = (file: string) => {
    if (needed.has(file)) return;
    needed.add(file);
    for (const imported of chunks.get(file)?.imports ?? []) add(imported);
  };
  for (const source of SOURCES) {
    const chunk = [...chunks.values()].find(({ moduleIds }) => moduleIds.includes(join(dashboard, source)));
    if (!chunk) throw new Error(`The build of the dashboard has no file for ${source}.`);
    add(chunk.fileName);
  }
  const font = output.find(({ fileName }) => FONT.test(fileName));
  if (!font) throw new Error('The build of the dashboard has no font.');
  const hints = [
    `<link rel="preload" as="font" type="font/woff2" crossorigin href="/${font.fileName}">`,
    ...[...needed]
      .filter((file) => !named.has(file))
      .map((file) => `<link rel="modulepreload" crossorigin href="/${file}">`),
    ...REQUESTS.map((path) => `<link rel="preload" as="fetch" crossorigin href="${path.replaceAll('&', '&amp;')}">`),
  ];
  const frame = readFileSync(join(dashboard, 'first-page.html'), 'utf8');
  const html = general
    .replace('</head>', () => `${hints.join('\n')}\n</head>`)
    .replace('<div id="root"></div>', () => `<div id="root"></div>\n${frame}`);
  return { html, files: new Set([...needed].map((file) => `/${file}`)) };
}
