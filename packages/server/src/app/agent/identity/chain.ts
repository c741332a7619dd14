import type { X509Certificate } from 'node:crypto';

const DEEPEST = 6;
/** For each certificate whose chain is verified. A chain has three or four certificates, with one check for each. */
const MAX_CHECKS = 20;
/** The purposes of certificates for servers, or for any use. */
const SERVING = ['1.3.6.1.5.5.7.3.1', '2.5.29.37.0'];

/**
 * Whether a trusted certificate issued this one, possibly through others of the pool. All of them must be valid at the
 * time and allowed for servers: the same authorities also issue certificates for code and mail, without verifying host
 * names. A trusted certificate need not be self-signed. Anyone may send certificates, so the number of signatures that are
 * checked is limited: beyond it, the certificate is not trusted.
 */
export function isTrusted(
  leaf: X509Certificate,
  pool: readonly X509Certificate[],
  trusted: readonly X509Certificate[],
  now: Date,
): boolean {
  const valid = (one: X509Certificate) => one.validFromDate <= now && now <= one.validToDate && serves(one);
  let checks = 0;
  const issued = (by: X509Certificate, one: X509Certificate) =>
    by.ca && valid(by) && one.checkIssued(by) && checks++ < MAX_CHECKS && one.verify(by.publicKey);
  let level = valid(leaf) ? [leaf] : [];
  for (let depth = 0; depth < DEEPEST && level.length > 0; depth++) {
    if (level.some((one) => trusted.some((root) => root.fingerprint256 === one.fingerprint256 || issued(root, one))))
      return true;
    level = pool.filter((by) => level.some((one) => by.fingerprint256 !== one.fingerprint256 && issued(by, one)));
  }
  return false;
}

/** Node's `keyUsage` is the extended key usage. A certificate without it is allowed for every purpose. */
function serves({ keyUsage }: X509Certificate): boolean {
  return keyUsage === undefined || keyUsage.some((usage) => SERVING.includes(usage));
}
