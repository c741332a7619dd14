/**
 * The value of the cookie with this name in a Cookie header. The first one counts: browsers send the cookie of the most
 * specific path first. Valid percent escapes are decoded.
 */
export function cookieValue(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined;
  let at = header.indexOf(name);
  while (at >= 0) {
    const before = at === 0 ? ';' : header[at - 1];
    const end = at + name.length;
    if ((before === ';' || before === ' ') && header[end] === '=') {
      const stop = header.indexOf(';', end);
      return decode(header.slice(end + 1, stop < 0 ? undefined : stop).trim());
    }
    at = header.indexOf(name, end);
  }
  return undefined;
}

function decode(value: string): string {
  if (!value.includes('%')) return value;
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
