// How an agent without a token proves which agent it is: by a document that the cloud of its machine has signed.
import { AppError } from '@ropewalk/kit/errors';

/** How an agent proves its identity, with upstream's names. */
export type AgentAuth = 'token' | 'aws-instance-identity' | 'azure-instance-identity' | 'google-instance-identity';

const AGENT_AUTHS: readonly string[] = [
  'token',
  'aws-instance-identity',
  'azure-instance-identity',
  'google-instance-identity',
];

/** @throws AppError `invalid` for anything but an authentication of agents, such as `aws-instance-identity` */
export function parseAuth(text: string): AgentAuth {
  if (isAuth(text)) return text;
  const known = AGENT_AUTHS.join(', ');
  throw new AppError('invalid', `CODER_AGENT_AUTH ${JSON.stringify(text)} is not supported: use one of ${known}.`);
}

function isAuth(name: string): name is AgentAuth {
  return AGENT_AUTHS.includes(name);
}

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
  { metadataUrl, name }: { metadataUrl?: string | undefined; name?: string | undefined },
): Promise<object> {
  return { ...(await PROOFS[auth](metadataUrl)), ...(name ? { agent_name: name } : {}) };
}
