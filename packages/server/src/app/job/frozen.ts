import { AppError } from '@ropewalk/kit';
import { isProviderPackage } from '@ropewalk/rules/provider-package';
import type { FrozenVersion, ProviderPackage } from '@ropewalk/wire/proto/platform_provisioner';
import type { Ownership } from '../../db/owned.ts';
import { filePieces, filesByHash } from '../../db/queries/files.ts';
import {
  frozenModules,
  frozenPackages,
  frozenVersion,
  type JobVersion,
  knownPackages,
  type PackageRow,
  storeFrozen,
  versionOfOwnJob,
} from '../../db/queries/frozen-versions.ts';
import type { Services } from '../context/context.ts';
import { NIL_UUID } from '../values/ids.ts';
import { notOwned } from './complete.ts';

const MAX_LOCK_BYTES = 1024 * 1024;
const MAX_PACKAGES = 200;
const MAX_PARTS = 1_000;

async function versionOf(services: Services, own: Ownership): Promise<JobVersion> {
  const version = await versionOfOwnJob(services.sql, own);
  if (!version) throw await notOwned(services.sql, own);
  return version;
}

/**
 * Stores the providers that an import has fixed. Returns the checksums of the packages whose files the server lacks. A
 * package of another version in the same organization counts: organizations never share files, because a daemon chooses
 * the content of the file that it sends for a checksum. Daemons compare both when they receive it.
 */
export async function keepFrozen(services: Services, own: Ownership, sent: FrozenVersion): Promise<string[]> {
  const version = await versionOf(services, own);
  if (version.type !== 'template_version_import')
    throw new AppError('invalid', 'Only an import job can store providers and modules for its version.');
  check(sent);
  const { sql } = services;
  const known = await knownPackages(
    sql,
    version.organization_id,
    sent.packages.map(({ checksum }) => checksum),
  );
  const packages: PackageRow[] = [];
  for (const one of sent.packages) {
    const { address, version: number, checksum } = one;
    const files =
      (await uploadedFiles(services, one)) ?? known.find((other) => other.checksum === checksum)?.files ?? [];
    packages.push({ address, version: number, checksum, files });
  }
  const { id, platform, engine, attached } = sent;
  const lock_file = Buffer.from(sent.lockFile).toString('utf8');
  await sql.begin((tx) => storeFrozen(tx, version, { id, platform, engine, attached, lock_file }, packages));
  return packages.filter(({ files }) => files.length === 0).map(({ checksum }) => checksum);
}

/** The limit for the archive of a package, in bytes. */
export const mostPackageBytes = ({ config }: Pick<Services, 'config'>): number =>
  config.provisionerPackageLimit * 1024 * 1024;

/** The files of an archive that the daemon has uploaded. Undefined if it names none, or one that the server lacks. */
async function uploadedFiles(
  services: Services,
  { address, fileHash, moreHashes }: ProviderPackage,
): Promise<string[] | undefined> {
  if (fileHash.length === 0) return undefined;
  const hashes = [fileHash, ...moreHashes].map((hash) => Buffer.from(hash).toString('hex'));
  if (hashes.length > MAX_PARTS)
    throw new AppError('too_large', `The package of ${address} has more than ${MAX_PARTS} parts.`);
  const found = await filesByHash(services.sql, hashes, NIL_UUID);
  const files = hashes.map((hash) => found.find((file) => file.hash === hash));
  if (files.includes(undefined)) return undefined;
  const bytes = files.reduce((sum, file) => sum + file!.size, 0);
  const most = mostPackageBytes(services);
  if (bytes > most)
    throw new AppError(
      'too_large',
      `The package of ${address} has ${bytes} bytes, and the server stores ${most} at most.`,
    );
  return files.map((file) => file!.id);
}

function check({ id, lockFile, packages, platform }: FrozenVersion): void {
  if (!/^[0-9a-f]{64}$/.test(id)) throw new AppError('invalid', 'The id of a frozen version must be a SHA-256 in hex.');
  if (lockFile.length > MAX_LOCK_BYTES)
    throw new AppError('too_large', `The lock file has ${lockFile.length} bytes, more than ${MAX_LOCK_BYTES}.`);
  if (packages.length > MAX_PACKAGES)
    throw new AppError('too_large', `The template has ${packages.length} providers, more than ${MAX_PACKAGES}.`);
  const wrong = packages.find(({ checksum }) => !/^h1:[A-Za-z0-9+/]{43}=$/.test(checksum));
  if (wrong) throw new AppError('invalid', `${wrong.address} has no checksum of the form "h1:…".`);
  // other daemons build paths from these names
  const odd = packages.find((one) => !isProviderPackage(one, platform));
  if (odd)
    throw new AppError(
      'invalid',
      `The package ${JSON.stringify(odd.address)}, version ${JSON.stringify(odd.version)}, for ${JSON.stringify(platform)} does not have the names of a provider: host/namespace/type, a version and a platform.`,
    );
}

/** What the import of the version of a running job has fixed. Empty if nothing. */
export async function frozenOf(services: Services, own: Ownership) {
  const { sql } = services;
  const { version_id: versionId } = await versionOf(services, own);
  const frozen = await frozenVersion(sql, versionId);
  if (!frozen) return {};
  const [modules, packages] = await Promise.all([frozenModules(sql, versionId), frozenPackages(sql, versionId)]);
  return {
    id: frozen.id,
    platform: frozen.platform,
    engine: frozen.engine,
    attached: frozen.attached,
    lockFile: Buffer.from(frozen.lock_file),
    moduleFilesHash: Buffer.from(modules?.hash ?? '', 'hex'),
    packages: packages.map(({ files, ...one }) => {
      const [fileHash = Buffer.alloc(0), ...moreHashes] = files.map(({ hash }) => Buffer.from(hash, 'hex'));
      return { ...one, fileHash, moreHashes, fileSize: BigInt(files.reduce((sum, { size }) => sum + size, 0)) };
    }),
  };
}

/** The pieces of a file of the frozen version of a running job. */
export async function* frozenFile(services: Services, own: Ownership, hash: string): AsyncGenerator<Buffer> {
  const { sql } = services;
  const { version_id: versionId } = await versionOf(services, own);
  const [modules, packages] = await Promise.all([frozenModules(sql, versionId), frozenPackages(sql, versionId)]);
  const file = [modules, ...packages.flatMap((one) => one.files)].find((one) => one?.hash === hash);
  if (!file) throw new AppError('not_found', `The template version has no file with the SHA-256 ${hash}.`);
  yield* filePieces(sql, file.id);
}
