import type { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import type { DeploymentSecurity, ServedCertificate } from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import { countByKey } from '../../db/queries/sealed-secrets.ts';
import type { Ctx } from '../context/context.ts';
import { time } from '../values/time.ts';

/** A certificate that the server presents, with the path of its file. */
export interface PresentedCertificate {
  file: string;
  certificate: X509Certificate;
}

/** How stored secrets and connections are encrypted. It contains neither keys nor secrets. */
export async function deploymentSecurity(
  ctx: Ctx,
  certificates: readonly PresentedCertificate[],
): Promise<DeploymentSecurity> {
  const { config, vault, accessUrl } = ctx;
  const counts = await countByKey(ctx.lists, authorize(ctx, 'read', { type: 'deployment_config' }));
  return {
    access_url: accessUrl,
    encryption: {
      keys: vault.fingerprints.map((fingerprint, at) => ({
        fingerprint,
        active: at === 0,
        secrets: counts.get(fingerprint) ?? 0,
      })),
      unencrypted_secrets: counts.get('') ?? 0,
    },
    tls: {
      enabled: config.tlsEnable,
      address: config.tlsEnable ? config.tlsAddress : '',
      min_version: config.tlsMinVersion,
      client_auth: config.tlsClientAuth,
      redirects_to_access_url: config.redirectToAccessUrl,
      hsts_seconds: config.strictTransportSecurity,
      certificates: certificates.map((one) => served(one, new URL(accessUrl).hostname)),
    },
  };
}

function served({ file, certificate }: PresentedCertificate, host: string): ServedCertificate {
  const address = host.replace(/^\[|\]$/g, '');
  const matching = isIP(address) ? certificate.checkIP(address) : certificate.checkHost(address);
  return {
    file,
    subject: commonName(certificate.subject),
    issuer: commonName(certificate.issuer),
    // Node.js separates them by commas, and quotes a name that contains one
    names: (certificate.subjectAltName ?? '')
      .split(', ')
      .filter((name) => /^(DNS|IP Address):/.test(name))
      .map((name) => name.replace(/^(DNS|IP Address):/, '')),
    not_before: time(certificate.validFromDate),
    not_after: time(certificate.validToDate),
    matches_access_url: matching !== undefined,
  };
}

/** The common name of a subject such as `C=DE\nO=Example\nCN=example.com`, or all of it on one line. */
function commonName(subject: string | undefined): string {
  return /^CN=(.*)$/m.exec(subject ?? '')?.[1] ?? (subject ?? '').replaceAll('\n', ', ');
}
