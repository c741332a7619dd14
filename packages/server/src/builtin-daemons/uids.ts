import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { AppError, ensureDirectorySync, processesWith, type UidBlock } from '@ropewalk/kit';
import { createFile, replaceFile } from '@ropewalk/kit/files';
import { directoryHash } from '../postgres/place.ts';

/** Every installation of a host has a file here, by its first uid. */
const REGISTRY = '/var/lib/coder/uids';
const RECORD = 'uids.json';
/** Uids that no distribution and no container manager gives out; within a container's usual map the upper half. */
const REGIONS: (UidBlock & { size: number })[] = [
  { first: 1_900_000_000, count: 200_000_000, size: 4_096 },
  { first: 20_000, count: 40_000, size: 512 },
];

/**
 * The uids of this installation, for its daemons and builds. They are chosen once, such that no user, group, container
 * or other installation of the host has them, and recorded in the config directory.
 * @throws AppError `unavailable` where none are left.
 */
export function installationUids(configDir: string): UidBlock {
  ensureDirectorySync(REGISTRY, { mode: 0o755 });
  const record = join(configDir, RECORD);
  const recorded = readBlock(record);
  // a copy of a config directory has its own uids
  const known = recorded && (ownerOf(recorded.first) || configDir) === configDir ? recorded : blockOf(configDir);
  if (known && mapped(known)) {
    claim(known.first, configDir);
    if (known !== recorded) replaceFile(record, `${JSON.stringify(known)}\n`);
    return known;
  }
  const taken = takenIds();
  for (const { first, count, size } of REGIONS) {
    if (!mapped({ first, count })) continue;
    const blocks = Math.floor(count / size);
    const start = Number.parseInt(directoryHash(configDir).slice(0, 8), 16) % blocks;
    for (let tries = 0; tries < Math.min(blocks, 10_000); tries++) {
      const block = { first: first + ((start + tries) % blocks) * size, count: size };
      if (taken.some(({ from, to }) => from < block.first + size && to > block.first)) continue;
      if (!claim(block.first, configDir)) continue;
      replaceFile(record, `${JSON.stringify(block)}\n`);
      return block;
    }
  }
  throw new AppError('unavailable', 'No free uids for the built-in provisioner daemons on this host.');
}

function readBlock(path: string): UidBlock | undefined {
  try {
    const { first, count } = JSON.parse(readFileSync(path, 'utf8')) as UidBlock;
    return Number.isInteger(first) && Number.isInteger(count) && first >= 1_000 ? { first, count } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The block that the registry has for a config directory whose record is lost or damaged. Homes belong to its uids, so the
 * installation must not get another one.
 */
function blockOf(configDir: string): UidBlock | undefined {
  const first = readdirSync(REGISTRY)
    .map(Number)
    .find((each) => ownerOf(each) === configDir);
  const region = REGIONS.find((one) => first !== undefined && first >= one.first);
  return first === undefined || !region ? undefined : { first, count: region.size };
}

function ownerOf(first: number): string | undefined {
  try {
    return readFileSync(join(REGISTRY, String(first)), 'utf8').trim();
  } catch {
    return undefined;
  }
}

/** False where another installation has the block. That of a config directory that is gone is free again. */
function claim(first: number, configDir: string): boolean {
  const path = join(REGISTRY, String(first));
  for (;;) {
    if (createFile(path, `${configDir}\n`, { mode: 0o644 })) return true;
    const owner = ownerOf(first);
    if (owner === configDir) return true;
    if (owner === undefined || readBlock(join(owner, RECORD))?.first === first || inUse(first)) return false;
    rmSync(path, { force: true });
  }
}

/** Whether a process still has a uid or gid of a block. */
function inUse(first: number): boolean {
  const size = REGIONS.find((region) => first >= region.first)!.size;
  return processesWith((id) => id >= first && id < first + size).length > 0;
}

/** Whether this container, if it is one, has these uids at all. */
function mapped({ first, count }: UidBlock): boolean {
  return ['uid_map', 'gid_map'].every((name) =>
    readFileSync(`/proc/self/${name}`, 'utf8')
      .trim()
      .split('\n')
      .some((line) => {
        const [inside = 0, , length = 0] = line.trim().split(/\s+/).map(Number);
        return inside <= first && first + count <= inside + length;
      }),
  );
}

/** Ids of users and groups, those of directory services included where they can be listed, and of containers. */
function takenIds(): { from: number; to: number }[] {
  const taken: { from: number; to: number }[] = [];
  for (const database of ['passwd', 'group']) {
    const { stdout } = spawnSync('getent', [database], { encoding: 'utf8', timeout: 10_000 });
    for (const line of (stdout || readOr(`/etc/${database}`)).split('\n')) {
      const id = Number(line.split(':')[2]);
      if (Number.isInteger(id)) taken.push({ from: id, to: id + 1 });
    }
  }
  for (const file of ['/etc/subuid', '/etc/subgid']) {
    for (const line of readOr(file).split('\n')) {
      const [, from, count] = line.split(':').map(Number);
      if (Number.isInteger(from) && Number.isInteger(count)) taken.push({ from: from!, to: from! + count! });
    }
  }
  return taken;
}

function readOr(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
