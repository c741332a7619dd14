import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { run } from '../run.ts';

/** What the server and its Terraform need, before their dependencies. */
const PACKAGES = [
  'base-files',
  'bash',
  'ca-certificates',
  'coreutils',
  'curl',
  'dash',
  'findutils',
  'git',
  'grep',
  'gzip',
  'libatomic1',
  'libc-bin',
  'libstdc++6',
  'mawk',
  'openssh-client',
  'sed',
  'tar',
];
const SOURCES = ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list'];
/** Folders that are links to the same ones below /usr, as on every Debian since 12. */
const MERGED = ['bin', 'lib', 'lib64', 'sbin'];
/** Documents that a container has no use for. The licenses stay. */
const LEFT_OUT = ['./usr/share/man/*', './usr/share/info/*', './usr/share/locale/*', './usr/share/lintian/*'];

export interface DebianPackage {
  name: string;
  version: string;
  architecture: string;
  sha256: string;
  /** What dpkg keeps of an installed package. */
  control: string;
  file: string;
}

/** Downloads the packages for an architecture with their dependencies, sorted by name. */
export function downloadPackages(architecture: string, folder: string): DebianPackage[] {
  const sources = SOURCES.find((path) => existsSync(path));
  if (!sources)
    throw new Error(`Cannot find apt's list of sources: ${SOURCES.join(' or ')}. Build the image on Debian.`);
  ensureDirectorySync(join(folder, 'state/lists/partial'));
  ensureDirectorySync(join(folder, 'cache/archives/partial'));
  writeFileSync(join(folder, 'status'), '');
  const settings = {
    'Dir::State': join(folder, 'state'),
    'Dir::State::status': join(folder, 'status'),
    'Dir::Cache': join(folder, 'cache'),
    'Dir::Etc::sourcelist': sources,
    'Dir::Etc::sourceparts': '-',
    'APT::Architecture': architecture,
    'APT::Architectures': architecture,
    'APT::Install-Recommends': 'false',
    // this process may not be root, and apt's own user cannot write to this folder
    'APT::Sandbox::User': '',
    'Debug::NoLocking': 'true',
  };
  const config = join(folder, 'apt.conf');
  writeFileSync(
    config,
    Object.entries(settings)
      .map(([name, value]) => `${name} "${value}";\n`)
      .join(''),
  );
  const env = { APT_CONFIG: config, DEBIAN_FRONTEND: 'noninteractive' };
  run('apt-get', ['update', '--quiet=2'], { env });
  run('apt-get', ['install', '--yes', '--quiet=2', '--download-only', ...PACKAGES], { env });
  return globSync(join(folder, 'cache/archives/*.deb'))
    .map((file) => {
      const control = run('dpkg-deb', ['--field', file]).toString();
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(control)![1]!;
      const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
      return {
        name: field('Package'),
        version: field('Version'),
        architecture: field('Architecture'),
        sha256,
        control,
        file,
      };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Unpacks packages to a root folder, and does what their scripts would do for this image. */
export function unpackPackages(packages: readonly DebianPackage[], root: string): void {
  for (const name of MERGED) {
    ensureDirectorySync(join(root, 'usr', name));
    symlinkSync(`usr/${name}`, join(root, name));
  }
  for (const { file } of packages) {
    const input = run('dpkg-deb', ['--fsys-tarfile', file]);
    const excluded = LEFT_OUT.map((pattern) => `--exclude=${pattern}`);
    run('tar', ['-x', '-C', root, '--keep-directory-symlink', '--no-same-owner', ...excluded], { input });
  }
  symlinkSync('mawk', join(root, 'usr/bin/awk'));
  // nobody in the image needs another user's rights
  run('chmod', ['-R', 'a-s', root]);
  for (const each of ['etc/apt', 'usr/share/doc-base']) rmSync(join(root, each), { recursive: true, force: true });
  const certificates = globSync(join(root, 'usr/share/ca-certificates/**/*.crt')).sort();
  ensureDirectorySync(join(root, 'etc/ssl/certs'));
  writeFileSync(
    join(root, 'etc/ssl/certs/ca-certificates.crt'),
    certificates.map((file) => readFileSync(file, 'utf8').replace(/\n?$/, '\n')).join(''),
  );
  // scanners for vulnerabilities read which packages an image has from here
  const status = join(root, 'var/lib/dpkg/status.d');
  ensureDirectorySync(status);
  for (const { name, control } of packages) writeFileSync(join(status, name), control);
}
