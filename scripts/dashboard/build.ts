// `node scripts/dashboard/build.ts FOLDER [--release]` builds the dashboard with its icons into a folder, in the form
// that the server reads. --release compresses as well as possible, which takes longer.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'vite';
import { writePack } from '../../packages/server/src/http/dashboard/pack.ts';
import { firstPage } from './first-page.ts';
import { readEmojis, readIcons } from './icons.ts';

const dashboard = join(dirname(dirname(import.meta.dirname)), 'packages/dashboard');
const { values, positionals } = parseArgs({ allowPositionals: true, options: { release: { type: 'boolean' } } });
const [into] = positionals;
if (into === undefined) {
  console.error('Name the folder for the built dashboard: node scripts/dashboard/build.ts FOLDER');
  process.exit(2);
}
/** Chromium compiles all functions of a script with it while it loads the script, in place of each when it is called. */
const EAGER = Buffer.from('//# allFunctionsCalledOnLoad\n');
const out = mkdtempSync(join(tmpdir(), 'dashboard-'));
try {
  const result = await build({
    root: dashboard,
    configFile: join(dashboard, 'vite.config.ts'),
    logLevel: 'warn',
    build: { outDir: out },
  });
  if (!('output' in result)) throw new Error('Expected one build.');
  const first = firstPage(dashboard, result.output);
  const isEager = (path: string) => first.files.has(path) && path.endsWith('.js');
  const built = readdirSync(out, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file): [string, Buffer] => [`/${relative(out, file).replaceAll('\\', '/')}`, readFileSync(file)])
    .map(([path, bytes]): [string, Buffer] => [path, isEager(path) ? Buffer.concat([EAGER, bytes]) : bytes]);
  const files = new Map([...built, ['/first-page.html', Buffer.from(first.html)], ...(await readIcons())]);
  const emojis = readEmojis();
  files.set('/icon/emojis.json', Buffer.from(JSON.stringify(Object.keys(emojis))));
  writePack(into, files, emojis, {
    // the best compression takes ten times as long, so a checkout has it for the first page only
    quality: (path) => (values.release || first.files.has(path) ? 11 : 9),
  });
} finally {
  rmSync(out, { recursive: true, force: true });
}
