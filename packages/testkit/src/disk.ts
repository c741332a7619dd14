import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A real file system of a few kilobytes, which can be filled. */
export interface SmallDisk {
  /** The folder that it is. */
  dir: string;
  /** Takes all the room that is left but for `bytes`, rounded to pages. */
  fill(leave?: number): void;
  /** Gives back what `fill` took. */
  empty(): void;
  remove(): void;
}

/** Mounts one; a text where that is not possible, which says why a test is skipped. */
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
      // lazily: what a process still holds open goes with it
      spawnSync('umount', ['-l', dir]);
      rmdirSync(dir);
      rmdirSync(base);
    },
  };
}
