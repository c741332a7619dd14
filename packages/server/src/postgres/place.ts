import { createHash } from 'node:crypto';
import { resolve } from 'node:path';

/** A name for files and locks of one config directory that cannot be stored in it. */
export function directoryHash(configDir: string): string {
  return createHash('sha256').update(resolve(configDir)).digest('hex').slice(0, 12);
}
