import { statfs } from 'node:fs/promises';
import { errorText } from '@platform/kit';

const MIB = 1 << 20;
/** A disk with less room is full. */
const FULL_BYTES = MIB;
/** What failed for want of room may have given some back: with less than this, its word is believed. */
const SCARCE_BYTES = 256 * MIB;

const NO_SPACE = /no space left on device|disk quota exceeded|\bENOSPC\b|\bEDQUOT\b/i;

/**
 * The folder whose disk is full, where that is why a job failed with this error. What the error says is not enough: it
 * may be a template's text, or about another machine's disk.
 */
export async function fullDisk(err: unknown, dirs: readonly string[]): Promise<string | undefined> {
  const { detail = '' } = err as { detail?: string };
  const isSaid = NO_SPACE.test(`${errorText(err)}\n${detail}`);
  for (const dir of dirs) {
    const room = await statfs(dir).catch(() => undefined);
    if (!room) continue;
    const bytes = room.bavail * room.bsize;
    const isFull = bytes < FULL_BYTES || (room.files > 0 && room.ffree === 0);
    if (isFull || (isSaid && bytes < SCARCE_BYTES)) return dir;
  }
  return undefined;
}
