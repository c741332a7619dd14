// Runs within `npm version NEW`, after npm has changed package.json and before it commits and tags. Gives everything that has the
// project's version the new one, and releases the changelog's unreleased section. Needs nothing that npm installs.
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { withRelease } from './changelog.ts';

const root = dirname(dirname(import.meta.dirname));
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const changed: string[] = [];

function change(file: string, edit: (text: string) => string): void {
  const text = read(file);
  const edited = edit(text);
  if (edited === text) throw new Error(`${file} does not have the version that it should have.`);
  writeFileSync(join(root, file), edited);
  changed.push(file);
}

interface Package {
  version?: string;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
}

/** Gives a package and its dependencies on the project's other packages a version. */
function setVersion(each: Package, version: string): void {
  each.version = version;
  for (const dependencies of [each.dependencies ?? {}, each.devDependencies ?? {}])
    for (const name of Object.keys(dependencies)) if (name.startsWith('@ropewalk/')) dependencies[name] = version;
}

const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

const { version } = JSON.parse(read('package.json')) as { version: string };
const manifests = globSync('packages/*/package.json', { cwd: root }).sort();
const { version: old } = JSON.parse(read(manifests[0]!)) as { version: string };

for (const file of manifests)
  change(file, (text) => {
    const manifest = JSON.parse(text) as Package;
    setVersion(manifest, version);
    return json(manifest);
  });
change('package-lock.json', (text) => {
  const lock = JSON.parse(text) as { packages: Record<string, Package> };
  for (const file of manifests) setVersion(lock.packages[dirname(file)]!, version);
  return json(lock);
});
change('packages/kit/src/version.ts', (text) => text.replace(`RELEASE = '${old}'`, `RELEASE = '${version}'`));
for (const file of globSync(['charts/*/Chart.yaml', 'charts/testdata/*.golden'], { cwd: root }).sort())
  if (read(file).includes(old)) change(file, (text) => text.replaceAll(old, version));
change('CHANGELOG.md', (text) => withRelease(text, version, new Date().toISOString().slice(0, 10)));

const { status } = spawnSync('git', ['add', '--', ...changed], { cwd: root, stdio: 'inherit' });
process.exitCode = status ?? 1;
