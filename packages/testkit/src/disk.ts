import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A real file system of a few kilobytes, which tests can fill. */
export interface SmallDisk {
  /** The directory that it is mounted on. */
  dir: string;
  /** Uses all free space except `leave` bytes, rounded to pages. */
  fill(leave?: number): void;
  /** Frees what `fill` used. */
  empty(): void;
  remove(): void;
}

/** Mounts a small disk. Returns the reason to skip a test if that is not possible. */
export function smallDisk(kilobytes: number, options: { inodes?: number } = {}): SmallDisk | string {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'needs root on Linux to mount a small disk';
  const base = mkdtempSync(join(tmpdir(), 'disk-'));
  const dir = join(base, 'mnt');
  mkdirSync(dir);
  const size = `size=${kilobytes}k${options.inodes ? `,nr_inodes=${options.inodes}` : ''},mode=1777`;
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', size, 'none', dir], { encoding: 'utf8' });
  if (mounted.status !== 0) {
    rmSync(base, { recursive: true });
    return `cannot mount a small disk: ${mounted.error?.message ?? mounted.stderr.trim()}`;
  }
  const ballast = join(dir, '.ballast');
  return {
    dir,
    fill(leave = 0) {
      const { bavail, bsize } = statfsSync(dir);
      writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - leave)), { flag: 'a' });
    },
    empty() {
      rmSync(ballast, { force: true });
    },
    remove() {
      // Lazily: the mount disappears even if a process still holds it open.
      spawnSync('umount', ['-l', dir]);
      rmdirSync(dir);
      rmdirSync(base);
    },
  };
}
