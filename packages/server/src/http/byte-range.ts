/**
 * The bytes that the header Range asks for, both ends included. Undefined if the answer is the whole: without the header, for several
 * ranges, for other units and for malformed ranges (RFC 9110, section 14.2).
 */
export function byteRange(
  header: string | undefined,
  size: number,
): { start: number; end: number } | 'unsatisfiable' | undefined {
  const [, from, to] = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/.exec(header ?? '') ?? [];
  if (from === undefined || (from === '' && to === '')) return undefined;
  const last = size - 1;
  if (from === '')
    return to === '0' || size === 0 ? 'unsatisfiable' : { start: Math.max(0, size - Number(to)), end: last };
  const [start, end] = [Number(from), to === '' ? last : Math.min(Number(to), last)];
  if (to !== '' && Number(to) < start) return undefined;
  return start > last ? 'unsatisfiable' : { start, end };
}
