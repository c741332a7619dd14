import { statfs } from 'node:fs/promises';
import { errorText } from '@ropewalk/kit';

const MIB = 1 << 20;
/** The free bytes below which a disk counts as full. */
const FULL_BYTES = MIB;
/** The free bytes below which an error that reports a full disk is believed: the failed program may have freed some. */
const SCARCE_BYTES = 256 * MIB;

const NO_SPACE = /no space left on device|disk quota exceeded|\bENOSPC\b|\bEDQUOT\b/i;

/**
 * The folder whose full disk is the reason for a job's error. Undefined if the reason is another one. The text of the
 * error is not enough: it may come from the template, or be about another machine's disk.
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
