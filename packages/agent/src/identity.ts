import { AppError } from '@ropewalk/kit';
import type { AgentAuth, AgentOptions } from './options.ts';

const LINK_LOCAL = 'http://169.254.169.254';
const GOOGLE = 'http://metadata.google.internal';
const TIMEOUT_MS = 15_000;
const TOKEN_SECONDS = 21_600;

/** Collects each cloud's proof from the machine's metadata service, in the form that the server expects. */
const PROOFS: Record<Exclude<AgentAuth, 'token'>, (base: string | undefined) => Promise<object>> = {
  async 'aws-instance-identity'(base = LINK_LOCAL) {
    const token = await ask(new URL('/latest/api/token', base), {
      method: 'PUT',
      headers: { 'X-aws-ec2-metadata-token-ttl-seconds': String(TOKEN_SECONDS) },
    });
    const headers = { 'X-aws-ec2-metadata-token': token };
    const read = (what: string) => ask(new URL(`/latest/dynamic/instance-identity/${what}`, base), { headers });
    const [signature, document] = await Promise.all([read('signature'), read('document')]);
    return { signature, document };
  },
  async 'azure-instance-identity'(base = LINK_LOCAL) {
    const url = new URL('/metadata/attested/document?api-version=2020-09-01', base);
    const { signature, encoding } = JSON.parse(await ask(url, { headers: { Metadata: 'true' } })) as Record<
      string,
      unknown
    >;
    return { signature, encoding };
  },
  async 'google-instance-identity'(base = GOOGLE) {
    const path = '/computeMetadata/v1/instance/service-accounts/default/identity?audience=coder&format=full';
    return { json_web_token: await ask(new URL(path, base), { headers: { 'Metadata-Flavor': 'Google' } }) };
  },
};

async function ask(url: URL, init: RequestInit): Promise<string> {
  const answer = await fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS), redirect: 'error' });
  if (!answer.ok) {
    await answer.body?.cancel();
    throw new AppError(
      'unavailable',
      `The machine's metadata service answered with status ${answer.status} to ${url.pathname}.`,
    );
  }
  return answer.text();
}

/**
 * Collects the machine's proof for `POST /workspaceagents/<auth>`. The name chooses one of several agents of the machine.
 * Throws `unavailable` if the metadata service rejects the request.
 */
export async function proofOfIdentity(
  auth: Exclude<AgentAuth, 'token'>,
  { metadataUrl, name }: Pick<AgentOptions, 'metadataUrl' | 'name'>,
): Promise<object> {
  return { ...(await PROOFS[auth](metadataUrl)), ...(name ? { agent_name: name } : {}) };
}

/**
 * Returns the agent token that the server issues for this machine's proof of identity. Throws `unauthenticated` if the
 * server rejects the proof, `unavailable` if the metadata service or the server cannot be reached.
 */
export async function tokenByIdentity(
  options: Pick<AgentOptions, 'url' | 'headers' | 'metadataUrl' | 'name'>,
  auth: Exclude<AgentAuth, 'token'>,
): Promise<string> {
  const proof = await proofOfIdentity(auth, options);
  const answer = await fetch(new URL(`/api/v2/workspaceagents/${auth}`, options.url), {
    method: 'POST',
    headers: { ...(await options.headers?.()), 'Content-Type': 'application/json' },
    body: JSON.stringify(proof),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const body = (await answer.json().catch(() => ({}))) as { session_token?: unknown; message?: unknown };
  if (answer.ok && typeof body.session_token === 'string' && body.session_token !== '') return body.session_token;
  const code = answer.status === 401 ? 'unauthenticated' : 'unavailable';
  const words = typeof body.message === 'string' ? `: ${body.message.slice(0, 500)}` : '.';
  throw new AppError(
    code,
    `Could not authenticate this machine: the server answered with status ${answer.status}${words}`,
  );
}
