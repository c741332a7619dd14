// The provisioner key of a provisioner: one key on the server, whose text is in a Secret. The server shows the text once and
// cannot change a key. So another organization, other tags, another name or a lost Secret mean another key. The old one is
// retired: it stays until no pod and no daemon uses it, because deleting it cancels the builds of its daemons.
import { randomBytes } from 'node:crypto';
import { ApiError, createClient } from '@ropewalk/client';
import { nodeFetch } from '@ropewalk/client/node-fetch';
import type { ProvisionerKey } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { Caches } from '../caches.ts';
import type { Provisioner, ProvisionerStatus } from '../crd/provisioner.ts';
import type { Secret } from '../kube/objects.ts';
import { sha256 } from '../machinery/apply.ts';
import type { Proofs } from '../machinery/proofs.ts';
import { keySecretOf } from './names.ts';
import type { Server, Target } from './server.ts';

/** What a key was created for. It is recorded in annotations of the Secret, next to the key's text. */
interface KeyFacts {
  'coder.com/key-name': string;
  'coder.com/key-id': string;
  /** The name that the spec asks for. The key's own has a suffix if that name is taken. */
  'coder.com/key-wanted-name': string;
  'coder.com/key-organization': string;
  'coder.com/key-organization-id': string;
  'coder.com/key-url': string;
  'coder.com/key-tags-hash': string;
}

const FACTS = [
  'coder.com/key-name',
  'coder.com/key-id',
  'coder.com/key-wanted-name',
  'coder.com/key-organization',
  'coder.com/key-organization-id',
  'coder.com/key-url',
  'coder.com/key-tags-hash',
] as const satisfies (keyof KeyFacts)[];
const PROOF = 'coder.com/key-proof';

export type RetiredKey = NonNullable<ProvisionerStatus['retiredKeys']>[number];

/** The longest name of a key on the server, in bytes. */
const MAX_NAME = 64;

const wantedName = ({ metadata, spec }: Provisioner): string => (spec.key?.name || metadata.name).toLowerCase();

/** What the spec asks of the key. */
function wantedFacts(provisioner: Provisioner, { url, organization }: Target) {
  return {
    'coder.com/key-wanted-name': wantedName(provisioner),
    'coder.com/key-organization': organization,
    'coder.com/key-url': url,
    'coder.com/key-tags-hash': sha256(provisioner.spec.tags ?? {}),
  };
}

/** The facts of a stored key. Undefined without a Secret, and if the operator did not write what it says. */
export function factsOf(proofs: Proofs, provisioner: Provisioner, secret: Secret | undefined): KeyFacts | undefined {
  const annotations = secret?.metadata.annotations;
  if (!annotations?.['coder.com/key-name']) return undefined;
  const facts = Object.fromEntries(FACTS.map((name) => [name, annotations[name] ?? ''])) as unknown as KeyFacts;
  if (isInStatus(provisioner, facts)) return facts;
  return proofs.holds(annotations[PROOF], provedWords(provisioner, facts)) ? facts : undefined;
}

/** Only the operator may write the status. */
function isInStatus({ status }: Provisioner, facts: KeyFacts): boolean {
  return (
    status?.provisionerKeyName === facts['coder.com/key-name'] &&
    status.provisionerKeyID === facts['coder.com/key-id'] &&
    status.organizationName === facts['coder.com/key-organization'] &&
    status.controlPlaneURL === facts['coder.com/key-url']
  );
}

const provedWords = ({ metadata }: Provisioner, facts: KeyFacts): string[] => [
  'key',
  metadata.namespace!,
  metadata.name,
  ...FACTS.map((name) => facts[name]),
];

/** The annotations of the Secret with a new key. */
export function annotationsOf(proofs: Proofs, provisioner: Provisioner, facts: KeyFacts): Record<string, string> {
  return { ...facts, [PROOF]: proofs.of(provedWords(provisioner, facts)) };
}

/** Whether the stored key exists on the server and is what the spec asks for. */
export function keyIsCurrent(
  proofs: Proofs,
  provisioner: Provisioner,
  target: Target,
  server: Server,
  secret?: Secret,
): boolean {
  const facts = factsOf(proofs, provisioner, secret);
  if (!facts || !secret?.data?.[keySecretOf(provisioner).key]) return false;
  const wanted = Object.entries(wantedFacts(provisioner, target));
  if (!wanted.every(([name, value]) => facts[name as keyof KeyFacts] === value)) return false;
  return server.state.keys.some(({ id }) => id === facts['coder.com/key-id']);
}

/** A name for the next key: the wanted one, with a suffix if that is taken. Asks the server, whose last poll may be old. */
export async function freeName(provisioner: Provisioner, { organization }: Target, server: Server): Promise<string> {
  const wanted = wantedName(provisioner);
  const keys = await server.client.call('GET /organizations/{organization}/provisionerkeys', {
    params: { organization },
  });
  if (!keys.some(({ name }) => name === wanted)) return wanted;
  const suffix = `-${randomBytes(3).toString('hex')}`;
  return wanted.slice(0, MAX_NAME - suffix.length) + suffix;
}

/**
 * Creates a key as the spec asks for. Returns its text, and its facts for the Secret. Undefined if someone else has just
 * taken the name.
 */
export async function createKey(
  provisioner: Provisioner,
  name: string,
  target: Target,
  server: Server,
): Promise<{ key: string; facts: KeyFacts } | undefined> {
  let key: string;
  try {
    ({ key } = await server.client.call('POST /organizations/{organization}/provisionerkeys', {
      params: { organization: target.organization },
      body: { name, tags: provisioner.spec.tags ?? {} },
    }));
  } catch (err) {
    if (err instanceof ApiError && err.status === 409) return undefined;
    throw err;
  }
  const created = await describeKey(target.url, key);
  server.addKey(created);
  const facts = {
    ...wantedFacts(provisioner, target),
    'coder.com/key-name': created.name,
    'coder.com/key-id': created.id,
    'coder.com/key-organization-id': created.organization,
  };
  return { key, facts };
}

/** What the server knows about a key, which the key itself may ask. */
async function describeKey(url: string, key: string): Promise<ProvisionerKey> {
  const client = createClient({
    url,
    token: '',
    fetch: nodeFetch,
    headers: { 'Coder-Provisioner-Daemon-Key': key },
  });
  const found = await client.call('GET /provisionerkeys/{provisionerkey}', { params: { provisionerkey: 'self' } });
  if (!found.id) throw new AppError('internal', `${url} does not describe the key that it has just created`);
  return found;
}

/** The keys that were replaced, with the one of the last status if that is no longer the current one. */
export function retiredKeys(status: ProvisionerStatus | undefined, facts: KeyFacts | undefined): RetiredKey[] {
  const {
    provisionerKeyName: name,
    provisionerKeyID: id,
    organizationName = '',
    controlPlaneURL: url = '',
    retiredKeys: old = [],
  } = status ?? {};
  const last = name ? [{ name, ...(id ? { id } : {}), organizationName, url }] : [];
  const all = [...old, ...last].filter((key) => !facts || !sameKey(key, keyOf(facts)));
  return all.filter((key, at) => all.findIndex((other) => sameKey(key, other)) === at);
}

/** The current key of a provisioner, if it is stored, and those that it replaced. */
export function knownKeys(
  { caches, proofs }: { caches: Caches; proofs: Proofs },
  provisioner: Provisioner,
): RetiredKey[] {
  const secret = caches.secrets.get(provisioner.metadata.namespace!, keySecretOf(provisioner).name);
  const facts = factsOf(proofs, provisioner, secret);
  return [...(facts ? [keyOf(facts)] : []), ...retiredKeys(provisioner.status, facts)];
}

const keyOf = (facts: KeyFacts): RetiredKey => ({
  name: facts['coder.com/key-name'],
  id: facts['coder.com/key-id'],
  organizationName: facts['coder.com/key-organization'],
  url: facts['coder.com/key-url'],
});

export const sameKey = (a: RetiredKey, b: RetiredKey): boolean =>
  a.name === b.name && a.organizationName === b.organizationName && a.url === b.url;
