import { createHash } from 'node:crypto';
import { resolve } from 'node:path';

/** A name for what belongs to one config directory and can't be kept in it. */
export function directoryHash(configDir: string): string {
  return createHash('sha256').update(resolve(configDir)).digest('hex').slice(0, 12);
}
