/**
 * The value of the cookie with this name in a Cookie header. The first one counts: browsers send the cookie of the most
 * specific path first. Valid percent escapes are decoded.
 */
export function cookieValue(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined;
  let at = header.indexOf(name);
  while (at >= 0) {
    const end = at + name.length;
    if (header[end] === '=' && startsPair(header, at)) {
      const stop = header.indexOf(';', end);
      return decode(header.slice(end + 1, stop < 0 ? undefined : stop).trim());
    }
    at = header.indexOf(name, end);
  }
  return undefined;
}

/** Whether only blanks are between this place and the pair before it. A value may contain blanks, and then a name. */
function startsPair(header: string, at: number): boolean {
  let before = at - 1;
  while (header[before] === ' ' || header[before] === '\t') before--;
  return before < 0 || header[before] === ';';
}

function decode(value: string): string {
  if (!value.includes('%')) return value;
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
