import type { ShareLevel } from '../../db/queries/port-shares.ts';

/** From the narrowest to the widest. */
const LEVELS: readonly ShareLevel[] = ['owner', 'organization', 'authenticated', 'public'];

/** The narrower of two levels. */
export function narrower(a: ShareLevel, b: ShareLevel): ShareLevel {
  return LEVELS[Math.min(LEVELS.indexOf(a), LEVELS.indexOf(b))] ?? 'owner';
}
