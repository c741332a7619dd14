import type { X509Certificate } from 'node:crypto';

const DEEPEST = 6;
/** For servers, or for anything. */
const SERVING = ['1.3.6.1.5.5.7.3.1', '2.5.29.37.0'];

/**
 * Whether a certificate was issued, over others of the pool, by one of the trusted, all of them valid at the time and
 * none of them made for something else than servers: the same authorities sign code and mail, for names that nobody
 * has shown to be his. A trusted one need not be self-signed.
 */
export function isTrusted(
  leaf: X509Certificate,
  pool: readonly X509Certificate[],
  trusted: readonly X509Certificate[],
  now: Date,
): boolean {
  const valid = (one: X509Certificate) => one.validFromDate <= now && now <= one.validToDate && serves(one);
  const issued = (by: X509Certificate, one: X509Certificate) =>
    by.ca && valid(by) && one.checkIssued(by) && one.verify(by.publicKey);
  let level = valid(leaf) ? [leaf] : [];
  for (let depth = 0; depth < DEEPEST && level.length > 0; depth++) {
    if (level.some((one) => trusted.some((root) => root.fingerprint256 === one.fingerprint256 || issued(root, one))))
      return true;
    level = pool.filter((by) => level.some((one) => by.fingerprint256 !== one.fingerprint256 && issued(by, one)));
  }
  return false;
}

/** What Node calls a key's usage is its extended usage; a certificate without it may serve for all. */
function serves({ keyUsage }: X509Certificate): boolean {
  return keyUsage === undefined || keyUsage.some((usage) => SERVING.includes(usage));
}
