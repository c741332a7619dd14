/**
 * Access tokens of Google Cloud and Azure that a database accepts as a password. The machine's own identity gets them
 * from an endpoint that only the machine reaches, so that no secret is stored anywhere.
 */
import { readFile } from 'node:fs/promises';
import type { Clock } from '@ropewalk/kit';
import { tokenTarget } from './database-url.ts';

const ANSWER_MS = 10_000;
/** Both clouds renew a token about this long before it expires. */
const EARLY_MS = 5 * 60_000;

export interface CloudToken {
  access_token: string;
  /** In seconds. Azure sends a text. */
  expires_in: number | string;
}

type Env = Readonly<Record<string, string | undefined>>;

async function ask(url: URL, init: RequestInit): Promise<CloudToken> {
  const response = await fetch(url, { ...init, redirect: 'error', signal: AbortSignal.timeout(ANSWER_MS) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url.host} answered with status ${response.status}: ${text.slice(0, 300)}`);
  const answer = JSON.parse(text) as Partial<CloudToken>;
  if (!answer.access_token) throw new Error(`${url.host} gave no access_token`);
  return { access_token: answer.access_token, expires_in: answer.expires_in ?? 0 };
}

/** A token of the machine's service account, from the metadata server. It may sign in to Cloud SQL and do nothing else. */
export function googleToken(env: Env): Promise<CloudToken> {
  const host = env['GCE_METADATA_HOST'] || 'metadata.google.internal';
  const url = new URL(`http://${host}/computeMetadata/v1/instance/service-accounts/default/token`);
  url.searchParams.set('scopes', 'https://www.googleapis.com/auth/sqlservice.login');
  return ask(url, { headers: { 'Metadata-Flavor': 'Google' } });
}

const AZURE_DATABASES = 'https://ossrdbms-aad.database.windows.net';

/**
 * A token of the machine's managed identity: of a Kubernetes workload, of App Service and Container Apps, or of a
 * virtual machine, whichever the environment describes.
 */
export async function azureToken(env: Env): Promise<CloudToken> {
  const client = env['AZURE_CLIENT_ID'];
  const federated = env['AZURE_FEDERATED_TOKEN_FILE'];
  if (federated && client && env['AZURE_TENANT_ID']) {
    const authority = env['AZURE_AUTHORITY_HOST'] || 'https://login.microsoftonline.com/';
    return ask(new URL(`${env['AZURE_TENANT_ID']}/oauth2/v2.0/token`, authority), {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: client,
        scope: `${AZURE_DATABASES}/.default`,
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        // Kubernetes renews the file
        client_assertion: (await readFile(federated, 'utf8')).trim(),
      }),
    });
  }
  const service = env['IDENTITY_ENDPOINT'];
  const machine = env['AZURE_POD_IDENTITY_AUTHORITY_HOST'] || 'http://169.254.169.254';
  const url = new URL(service || `${machine}/metadata/identity/oauth2/token`);
  url.searchParams.set('api-version', service ? '2019-08-01' : '2018-02-01');
  url.searchParams.set('resource', AZURE_DATABASES);
  if (client) url.searchParams.set('client_id', client);
  return ask(url, { headers: service ? { 'X-IDENTITY-HEADER': env['IDENTITY_HEADER'] ?? '' } : { Metadata: 'true' } });
}

const SOURCES = { gcpiam: googleToken, azureentra: azureToken };
export type Cloud = keyof typeof SOURCES;
export const isCloud = (auth: string): auth is Cloud => Object.hasOwn(SOURCES, auth);

/**
 * Returns the source of tokens as passwords. Connections share a token until five minutes before it expires.
 * @throws AppError `invalid` if the URL lacks the host or the user
 */
export function cloudPasswords(cloud: Cloud, url: string, clock: Clock, env: Env = process.env): () => Promise<string> {
  tokenTarget(url, cloud);
  let asking: Promise<CloudToken> | undefined;
  let renewAt = 0;
  return async () => {
    if (clock.monotonic() >= renewAt) asking = undefined;
    if (!asking) {
      renewAt = Number.POSITIVE_INFINITY;
      asking = SOURCES[cloud](env);
      asking.then(
        ({ expires_in }) => (renewAt = clock.monotonic() + Number(expires_in) * 1_000 - EARLY_MS),
        () => (renewAt = 0),
      );
    }
    return (await asking).access_token;
  };
}
