import { type Files, PlannedValues, Template } from '@ropewalk/hcl';
import { type Entry, readTar } from './archive.ts';

/** The files of a version. They never change. */
export interface VersionFiles {
  archive: Uint8Array;
  /** The modules that Terraform fetched, by their path in the template. */
  modules?: Uint8Array;
  /** The plan of the import, as JSON. */
  plan?: string;
}

/** A version without its files uses those that this thread has read before. */
export interface VersionSource {
  id: string;
  files?: VersionFiles;
}

export interface ReadVersion {
  template: Template;
  planned: PlannedValues;
  /** The size of its Terraform files, and of all files, in bytes. */
  sourceBytes: number;
  bytes: number;
}

/** Read versions by id, the most recently used last. Each thread has its own. */
const versions = new Map<string, ReadVersion>();
const MAX_VERSIONS = 16;
/** Limits the source bytes of all kept versions. The parsed form may take fifty times as much memory. */
const MAX_SOURCE_BYTES = 1024 * 1024;
const MAX_BYTES = 48 * 1024 * 1024;
/** A larger file that is not Terraform's is left out. An expression that reads it fails. */
const MAX_FILE_BYTES = 1024 * 1024;

const isSource = (path: string) => /\.(tf|tfvars)(\.json)?$/.test(path);

/** Undefined when the version's files are needed and not given. */
export async function readVersion({ id, files }: VersionSource): Promise<ReadVersion | undefined> {
  const known = versions.get(id);
  if (known) versions.delete(id);
  const version = known ?? (files && (await read(files)));
  if (!version) return undefined;
  versions.set(id, version);
  const sum = (size: (one: ReadVersion) => number) => versions.values().reduce((all, one) => all + size(one), 0);
  let [sourceBytes, bytes] = [sum((one) => one.sourceBytes), sum((one) => one.bytes)];
  for (const [oldest, old] of versions) {
    const fits = sourceBytes <= MAX_SOURCE_BYTES && bytes <= MAX_BYTES;
    if (oldest === id || (versions.size <= MAX_VERSIONS && fits)) break;
    versions.delete(oldest);
    sourceBytes -= old.sourceBytes;
    bytes -= old.bytes;
  }
  return version;
}

async function read({ archive, modules, plan }: VersionFiles): Promise<ReadVersion> {
  const entries = [...(await readTar(archive)), ...(modules ? await readTar(modules) : [])];
  const kept = entries.filter(({ path, data }) => isSource(path) || data.length <= MAX_FILE_BYTES);
  const size = (some: readonly Entry[]) => some.reduce((sum, { data }) => sum + data.length, 0);
  return {
    template: new Template(filesOf(kept)),
    planned: new PlannedValues(plan === undefined ? undefined : JSON.parse(plan)),
    sourceBytes: size(kept.filter(({ path }) => isSource(path))),
    bytes: size(kept),
  };
}

export function filesOf(entries: readonly Entry[]): Files {
  const byPath = new Map(entries.map(({ path, data }) => [path, data]));
  return { read: (path) => byPath.get(path), paths: () => byPath.keys() };
}
