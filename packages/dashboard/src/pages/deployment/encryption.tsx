import type { DeploymentSecurity, ServedCertificate } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Badge } from '../../ui/badge.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { formatDateTime, formatRelative, useNow } from '../../util/time.ts';
import { securityQuery } from './queries.ts';

/** Before a certificate expires, people get this time to renew it, in ms. */
const SOON_MS = 14 * 86_400_000;

const ROTATE = <code className="font-mono text-sm">coder server dbcrypt rotate</code>;

const secrets = (count: number): string => `${count} ${count === 1 ? 'secret' : 'secrets'}`;

/** How connections and stored secrets are encrypted. */
export function Encryption() {
  const security = useQuery(securityQuery);
  return (
    <QueryView query={security} loading={<SkeletonLines lines={8} />}>
      {({ access_url: accessUrl, tls, encryption }) => (
        <>
          <Tls accessUrl={accessUrl} tls={tls} />
          <StoredSecrets encryption={encryption} />
        </>
      )}
    </QueryView>
  );
}

function Tls({ accessUrl, tls }: { accessUrl: string; tls: DeploymentSecurity['tls'] }) {
  const isEncrypted = accessUrl.startsWith('https:');
  const fits = tls.certificates.some((one) => one.matches_access_url);
  return (
    <Section
      title="Connections"
      actions={<Badge tone={isEncrypted ? 'good' : 'warn'}>{isEncrypted ? 'TLS' : 'Not encrypted'}</Badge>}
    >
      <div className="flex flex-col gap-4">
        {!isEncrypted && (
          <Notice tone="warn" title={`People reach this server without encryption at ${accessUrl}`}>
            Set --tls-enable with a certificate, or put a proxy with TLS in front of the server, and set --access-url to
            its https address.
          </Notice>
        )}
        {tls.enabled && isEncrypted && !fits && (
          <Notice tone="warn" title={`No certificate is valid for ${new URL(accessUrl).hostname}`}>
            Browsers and agents that reach this server without a proxy reject the connection.
          </Notice>
        )}
        <Facts
          facts={[
            ['Access URL', accessUrl],
            [
              'TLS of this server',
              tls.enabled
                ? `On, at ${tls.address}`
                : isEncrypted
                  ? 'Off: a proxy in front of it encrypts connections'
                  : 'Off',
            ],
            tls.enabled && ['Oldest version', tls.min_version.replace(/^tls(\d)(\d)$/, 'TLS $1.$2')],
            tls.enabled && ['Client certificates', tls.client_auth === 'none' ? 'Not asked for' : tls.client_auth],
            ['Other host names', tls.redirects_to_access_url ? 'Redirected to the access URL' : 'Answered'],
            [
              'Strict-Transport-Security',
              tls.hsts_seconds > 0 ? `For ${tls.hsts_seconds.toLocaleString()} seconds` : 'Not sent',
            ],
          ]}
        />
        {tls.certificates.map((one) => (
          <Certificate key={one.file} certificate={one} />
        ))}
      </div>
    </Section>
  );
}

function Certificate({ certificate }: { certificate: ServedCertificate }) {
  const now = useNow(60_000);
  const { subject, issuer, names, file, not_before: from, not_after: until } = certificate;
  return (
    <div className="rounded-lg border border-line px-4 py-3">
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <h3 className="break-all font-medium">{subject || names[0] || file}</h3>
        <Validity from={Date.parse(from)} until={Date.parse(until)} now={now} />
        {certificate.matches_access_url && <Badge>Access URL</Badge>}
      </div>
      <Facts
        facts={[
          [Date.parse(until) < now ? 'Expired' : 'Expires', `${formatDateTime(until)} (${formatRelative(until, now)})`],
          ['Names', names.join(', ')],
          ['Issuer', issuer],
          [
            'File',
            <code key="file" className="break-all font-mono text-sm">
              {file}
            </code>,
          ],
        ]}
      />
    </div>
  );
}

function Validity({ from, until, now }: { from: number; until: number; now: number }) {
  if (until < now) return <Badge tone="bad">Expired</Badge>;
  if (from > now) return <Badge tone="bad">Not valid yet</Badge>;
  if (until - now < SOON_MS) return <Badge tone="warn">Expires soon</Badge>;
  return <Badge tone="good">Valid</Badge>;
}

function StoredSecrets({ encryption }: { encryption: DeploymentSecurity['encryption'] }) {
  const { keys, unencrypted_secrets: plain } = encryption;
  const older = keys.filter((key) => !key.active).reduce((sum, key) => sum + key.secrets, 0);
  const waiting = [
    plain > 0 && `${secrets(plain)} without encryption`,
    older > 0 && `${secrets(older)} with an older key`,
  ]
    .filter(Boolean)
    .join(' and ');
  return (
    <Section
      title="Stored secrets"
      actions={
        <Badge tone={keys.length > 0 ? 'good' : 'neutral'}>{keys.length > 0 ? 'Encrypted' : 'Not encrypted'}</Badge>
      }
    >
      <div className="flex flex-col gap-4">
        <p className="text-muted text-sm">
          Tokens of identity providers and of external accounts, and the private keys that workspaces use for Git.
        </p>
        {keys.length === 0 ? (
          <p>
            {plain > 0 && `${secrets(plain)} ${plain === 1 ? 'is' : 'are'} stored as plain text. `}
            Set --external-token-encryption-keys to encrypt new secrets, and run {ROTATE} for those stored before.
          </p>
        ) : (
          <>
            {waiting && (
              <Notice tone="warn" title={`The database contains ${waiting}`}>
                <span>Run {ROTATE} to encrypt them with the first key.</span>
              </Notice>
            )}
            <ul className="divide-y divide-line rounded-lg border border-line">
              {keys.map((key) => (
                <li key={key.fingerprint} className="flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-2.5">
                  <code className="font-mono text-sm">{key.fingerprint}</code>
                  {key.active && <Badge tone="good">Encrypts new secrets</Badge>}
                  <span className="ml-auto text-muted text-sm">{secrets(key.secrets)}</span>
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
    </Section>
  );
}
