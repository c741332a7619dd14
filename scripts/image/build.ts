// `npm run image -- [amd64] [arm64] [--out FOLDER] [--terraform FOLDER]` assembles an OCI image of the server, without a container
// engine and without root. The default is both architectures and dist/image. It needs the executables in dist/, and Debian or Ubuntu.
// --terraform names a folder with the publisher's archives (terraform_VERSION_linux_ARCH.zip). Without it, the server installs
// Terraform when it first needs it. Two runs with the same executables and packages give the same digest.
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ensureDirectorySync } from '@ropewalk/kit';
import { ALLOCATOR } from '@ropewalk/kit/allocator';
import { VERSION } from '@ropewalk/kit/version';
import { INSTALLED_VERSION, TERRAFORM_SUMS } from '@ropewalk/provisioner/terraform/sums';
import { unzipSync } from 'fflate';
import { committedAt, isoSeconds, run } from '../run.ts';
import { npmParts, type Part, programPart, spdx } from '../sbom.ts';
import { type DebianPackage, downloadPackages, unpackPackages } from './debian.ts';
import { createLayout, type Layer } from './layout.ts';

const ARCHITECTURES = ['amd64', 'arm64'];
const root = join(import.meta.dirname, '../..');
const UID = 1000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: 'string', default: join(root, 'dist/image') }, terraform: { type: 'string' } },
});
// the modes of files are a part of the image
process.umask(0o022);
const unknown = positionals.find((name) => !ARCHITECTURES.includes(name));
if (unknown !== undefined)
  throw new Error(`Unknown architecture "${unknown}". Choose from ${ARCHITECTURES.join(', ')}.`);
const architectures = positionals.length > 0 ? positionals : ARCHITECTURES;

/** When the sources changed last: the time of every file, so that a second run gives the same bytes. */
const epoch = process.env['SOURCE_DATE_EPOCH'] ? Number(process.env['SOURCE_DATE_EPOCH']) : committedAt(root);
const created = isoSeconds(epoch);

const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');

/** Packs paths below a folder. Names, order, times and owners depend on nothing else. */
function tar(folder: string, paths: string[], owner = 0): Uint8Array {
  return run('tar', [
    '-c',
    '--sort=name',
    '--format=posix',
    '--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime',
    `--mtime=@${epoch}`,
    `--owner=${owner}`,
    `--group=${owner}`,
    '--numeric-owner',
    ...(owner === 0 ? [] : ['--no-recursion']),
    '-C',
    folder,
    ...paths,
  ]);
}

/** The Terraform of an archive whose checksum this program knows. */
function terraformOf(folder: string, architecture: string): { version: string; data: Uint8Array } {
  const name = `terraform_${INSTALLED_VERSION}_linux_${architecture}.zip`;
  const archive = readFileSync(join(folder, name));
  const expected = TERRAFORM_SUMS[INSTALLED_VERSION]?.[`linux_${architecture}`];
  if (sha256(archive) !== expected) throw new Error(`The SHA-256 of ${name} is ${sha256(archive)}, not ${expected}.`);
  return { version: INSTALLED_VERSION, data: unzipSync(archive)['terraform']! };
}

const terraformPart = ({ version, data }: { version: string; data: Uint8Array }): Part => ({
  name: 'terraform',
  version,
  license: 'BUSL-1.1',
  checksum: { algorithm: 'SHA256', checksumValue: sha256(data) },
});

const debianPart = ({ name, version, architecture, sha256: checksumValue }: DebianPackage): Part => ({
  name,
  version,
  purl: `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`,
  checksum: { algorithm: 'SHA256', checksumValue },
});

/** Users of the image, and the folder that the server writes to. */
function addAccounts(place: string): void {
  writeFileSync(
    join(place, 'etc/passwd'),
    `root:x:0:0:root:/root:/bin/bash\ncoder:x:${UID}:${UID}::/home/coder:/bin/bash\n`,
  );
  writeFileSync(join(place, 'etc/group'), `root:x:0:\ncoder:x:${UID}:\n`);
  ensureDirectorySync(join(place, 'tmp'));
  chmodSync(join(place, 'tmp'), 0o1777);
}

function layersOf(architecture: string, work: string): { layers: Layer[]; packages: DebianPackage[]; sbom: object } {
  const executable = join(root, 'dist', `coder-linux-${architecture}`);
  if (!existsSync(executable)) {
    const system = architecture === 'amd64' ? 'linux-x64' : 'linux-arm64';
    throw new Error(`${executable} does not exist. Build it first: npm run build -- ${system}`);
  }
  const [system, program] = [join(work, 'system'), join(work, 'program')];
  mkdirSync(system);
  const packages = downloadPackages(architecture, join(work, 'apt'));
  unpackPackages(packages, system);
  addAccounts(system);
  ensureDirectorySync(join(program, 'opt'));
  ensureDirectorySync(join(program, 'usr/local/bin'));
  ensureDirectorySync(join(program, 'home/coder'));
  const data = readFileSync(executable);
  writeFileSync(join(program, 'opt/coder'), data, { mode: 0o755 });
  const terraform = values.terraform === undefined ? undefined : terraformOf(values.terraform, architecture);
  if (terraform) writeFileSync(join(program, 'usr/local/bin/terraform'), terraform.data, { mode: 0o755 });
  const layers = [
    { what: 'Debian packages', tar: tar(system, ['.']) },
    { what: `coder ${VERSION}`, tar: tar(program, ['./opt', './usr']) },
    { what: 'home of the user coder', tar: tar(program, ['./home/coder'], UID) },
  ];
  const program256 = sha256(data);
  const sbom = spdx({
    name: `coder ${VERSION} linux/${architecture}`,
    namespace: `urn:sha256:${program256}:${architecture}`,
    created,
    tool: 'scripts/image/build.ts',
    parts: [
      programPart('coder', VERSION, program256),
      ...(terraform ? [terraformPart(terraform)] : []),
      ...packages.map(debianPart),
      ...npmParts(),
    ],
  });
  return { layers, packages, sbom };
}

const config = {
  User: `${UID}:${UID}`,
  Env: [
    'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    'HOME=/home/coder',
    'CODER_HTTP_ADDRESS=0.0.0.0:3000',
    ...Object.entries(ALLOCATOR).map(([name, value]) => `${name}=${value}`),
  ],
  Entrypoint: ['/opt/coder', 'server'],
  WorkingDir: '/home/coder',
  ExposedPorts: { '3000/tcp': {} },
  Volumes: { '/home/coder': {} },
  StopSignal: 'SIGTERM',
  Labels: {
    'org.opencontainers.image.title': 'coder',
    'org.opencontainers.image.version': VERSION,
    'org.opencontainers.image.licenses': 'Apache-2.0',
  },
};

rmSync(values.out, { recursive: true, force: true });
const layout = createLayout(values.out);
const images = architectures.map((architecture) => {
  const work = mkdtempSync(join(tmpdir(), 'image-'));
  try {
    const { layers, packages, sbom } = layersOf(architecture, work);
    writeFileSync(join(values.out, `sbom-${architecture}.spdx.json`), `${JSON.stringify(sbom, null, 1)}\n`);
    const image = layout.addImage({ architecture, created, config, layers });
    console.log(`linux/${architecture}: ${packages.length} Debian packages, ${image.digest}`);
    return image;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
});
console.log(`${values.out}: ${layout.finish(images, VERSION.replace('+', '_'))}`);
