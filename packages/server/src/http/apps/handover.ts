import { SIGN_IN_PARAMETER } from '../../app/values/app-address.ts';

/** Removes the handover of a sign-in from a request target. */
export function withoutHandover(target: string): { handover: string | undefined; rest: string } {
  if (!target.includes(SIGN_IN_PARAMETER)) return { handover: undefined, rest: target };
  const at = target.indexOf('?');
  const parts = target.slice(at + 1).split('&');
  const mine = `${SIGN_IN_PARAMETER}=`;
  const kept = parts.filter((part) => !part.startsWith(mine));
  const handover = parts.find((part) => part.startsWith(mine))?.slice(mine.length);
  return { handover, rest: target.slice(0, at) + (kept.length > 0 ? `?${kept.join('&')}` : '') };
}
