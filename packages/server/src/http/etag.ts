/** Whether the header If-None-Match contains this tag. RFC 9110 requires the weak comparison. */
export function holdsTag(header: string | undefined, etag: string): boolean {
  const bare = (tag: string) => tag.trim().replace(/^W\//, '');
  const given = (header ?? '').split(',').map(bare);
  return given.includes(bare(etag)) || given.includes('*');
}
