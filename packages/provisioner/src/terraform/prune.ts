// Frees space in the cache of prepared versions. What a build uses at the moment stays.

import { chmod, lstat, readdir, readlink, rm, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { installedPackages } from './frozen.ts';
import { cachedEngines, removeEngine } from './named-engine.ts';

/** Something that another process of the machine may be making or linking right now. */
const FRESH_MS = 10 * 60_000;

export interface PrunePolicy {
  /** Removes engines, versions, packages and modules that nobody used for this time, in ms. */
  unusedMs?: number | undefined;
  /** Removes the versions and engines that were used longest ago until the cache has at most this many bytes. */
  mostBytes?: number | undefined;
  /** Removes the versions that were used longest ago until this many are left. */
  mostVersions?: number | undefined;
  /** Keeps versions and engines that were used within this time, in ms. Default: 10 minutes. */
  keepMs?: number | undefined;
  /** Only reports. */
  dryRun?: boolean | undefined;
}

export interface Pruned {
  engines: number;
  versions: number;
  packages: number;
  modules: number;
  /** The bytes that were freed. */
  freed: number;
  /** The bytes that are left. */
  left: number;
}

interface Part {
  kind: 'engines' | 'versions' | 'packages' | 'modules';
  path: string;
  bytes: number;
  usedAt: number;
  /** The packages and modules that a version links to. */
  links: string[];
  /** Whether a living daemon uses it. Absent for a part that is held by links. */
  held?: boolean;
}

/** Prunes the cache in `cacheDir`. `sessions`: folders of daemons' sessions, whose versions stay. */
export async function pruneCache(
  cacheDir: string,
  sessions: readonly string[],
  policy: PrunePolicy,
  now: number,
): Promise<Pruned> {
  const versions = await versionsOf(join(cacheDir, 'versions'));
  const engines = await enginesOf(cacheDir);
  const stores = [...(await packagesOf(join(cacheDir, 'plugins'))), ...(await modulesOf(join(cacheDir, 'modules')))];
  const held = new Set(await heldVersions(sessions));
  const keepMs = policy.keepMs ?? FRESH_MS;
  const removable = [...versions, ...engines]
    .filter((part) => !part.held && !held.has(part.path) && now - part.usedAt >= keepMs)
    .sort((a, b) => a.usedAt - b.usedAt);
  const gone = new Set<Part>();
  const unusedFor = policy.unusedMs ?? Number.POSITIVE_INFINITY;
  for (const part of removable) if (now - part.usedAt >= unusedFor) gone.add(part);
  /** Packages and modules that no version links to any more. */
  const unlinked = () => {
    const used = new Set(versions.filter((version) => !gone.has(version)).flatMap(({ links }) => links));
    return stores.filter(({ path, usedAt }) => {
      const wait =
        policy.unusedMs === undefined || policy.mostBytes !== undefined ? FRESH_MS : Math.max(FRESH_MS, unusedFor);
      return !used.has(path) && now - usedAt >= wait;
    });
  };
  const sum = (parts: Iterable<Part>) => [...parts].reduce((total, { bytes }) => total + bytes, 0);
  const all = sum(versions) + sum(engines) + sum(stores);
  const tooLarge = () => policy.mostBytes !== undefined && all - sum(gone) - sum(unlinked()) > policy.mostBytes;
  const tooMany = () =>
    policy.mostVersions !== undefined && versions.filter((one) => !gone.has(one)).length > policy.mostVersions;
  for (const part of removable) if (tooLarge() || (part.kind === 'versions' && tooMany())) gone.add(part);
  const parts = [...gone, ...unlinked()];
  if (!policy.dryRun)
    for (const { kind, path } of parts) await (kind === 'engines' ? removeEngine(path) : removeTree(path));
  const count = (kind: Part['kind']) => parts.filter((part) => part.kind === kind).length;
  const freed = sum(parts);
  return {
    engines: count('engines'),
    versions: count('versions'),
    packages: count('packages'),
    modules: count('modules'),
    freed,
    left: all - freed,
  };
}

/** Removes the packages of Terraform's own plugin cache that no prepared version links to. */
export async function removeUnlinkedDownloads(cacheDir: string): Promise<void> {
  const used = new Set((await versionsOf(join(cacheDir, 'versions'))).flatMap(({ links }) => links));
  const plugins = join(cacheDir, 'plugins');
  for (const { path } of await packagesOf(plugins))
    if (!used.has(path) && !path.startsWith(join(plugins, 'by-content'))) await removeTree(path);
}

async function enginesOf(cacheDir: string): Promise<Part[]> {
  const found: Part[] = [];
  for (const one of await cachedEngines(cacheDir))
    found.push({ kind: 'engines', ...one, bytes: await sizeOf(one.path), links: [] });
  return found;
}

async function versionsOf(dir: string): Promise<Part[]> {
  const found: Part[] = [];
  for (const entry of await readdir(dir, { withFileTypes: true }).catch(() => [])) {
    if (!entry.isDirectory()) continue;
    const path = join(dir, entry.name);
    const meta = (await stat(join(path, 'meta.json')).catch(() => undefined)) ?? (await stat(path));
    const links: string[] = [];
    for (const one of installedPackages(path)) links.push(await readlink(one.path).catch(() => one.path));
    const modules = await readlink(join(path, '.terraform', 'modules')).catch(() => undefined);
    // a link leads into the folder of the unpacked archive
    if (modules) links.push(modules.split(`${sep}.terraform${sep}`)[0]!);
    found.push({ kind: 'versions', path, bytes: await sizeOf(path), usedAt: meta.mtimeMs, links });
  }
  return found;
}

/** Provider packages are five levels down. What a dead daemon left half-made is below a name with a leading dot. */
async function packagesOf(dir: string): Promise<Part[]> {
  const part = async (path: string): Promise<Part> => {
    const { mtimeMs: usedAt } = await lstat(path);
    return { kind: 'packages', path, bytes: await sizeOf(path), usedAt, links: [] };
  };
  const found: Part[] = [];
  const descend = async (path: string, depth: number): Promise<void> => {
    for (const entry of await readdir(path, { withFileTypes: true }).catch(() => [])) {
      const below = join(path, entry.name);
      if (!entry.isDirectory()) continue;
      if (depth === 5 || entry.name.startsWith('.')) found.push(await part(below));
      else await descend(below, depth + 1);
    }
  };
  await descend(dir, 1);
  return found;
}

async function modulesOf(dir: string): Promise<Part[]> {
  const found: Part[] = [];
  for (const name of await readdir(dir).catch(() => [])) {
    const path = join(dir, name);
    const { mtimeMs: usedAt } = await lstat(path);
    found.push({ kind: 'modules', path, bytes: await sizeOf(path), usedAt, links: [] });
  }
  return found;
}

/** The versions that sessions link to. */
async function heldVersions(sessions: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const dir of sessions)
    for (const name of await readdir(dir).catch(() => [])) {
      const link = await readlink(join(dir, name, 'template', '.terraform')).catch(() => undefined);
      if (link) found.push(join(link, '..'));
    }
  return found;
}

/** The bytes of a file, or of all files of a tree. Does not follow links. */
async function sizeOf(path: string): Promise<number> {
  const info = await lstat(path).catch(() => undefined);
  if (!info) return 0;
  if (!info.isDirectory()) return info.size;
  let total = 0;
  for (const name of await readdir(path).catch(() => [])) total += await sizeOf(join(path, name));
  return total;
}

/** Removes a tree whose folders may be read-only. */
export async function removeTree(path: string): Promise<void> {
  await setWritable(path, true);
  await rm(path, { recursive: true, force: true });
}

/** Sets or clears the write bits of a tree's own folders. Does not follow links. */
export async function setWritable(path: string, on: boolean, closed = 0o500): Promise<void> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => undefined);
  if (!entries) return;
  if (on) await chmod(path, 0o700);
  for (const entry of entries) if (entry.isDirectory()) await setWritable(join(path, entry.name), on, closed);
  if (!on) await chmod(path, closed);
}
