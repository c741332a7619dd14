/** One part of a path: it names a file or folder, and leads nowhere else. */
const PART = /^[^./\\\0][^/\\\0]{0,254}$/;

/**
 * Whether the names of a provider's package are safe as parts of a path. Anyone with a key of a daemon sends them.
 * `address`: `host/namespace/type`. `platform`: such as `linux_amd64`.
 */
export function isProviderPackage(
  { address, version }: { address: string; version: string },
  platform: string,
): boolean {
  const parts = address.split('/');
  return parts.length === 3 && [...parts, version, platform].every((part) => PART.test(part));
}
