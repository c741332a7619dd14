import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '@ropewalk/kit';
import { formatApiVersion, PROVISIONER_API } from '@ropewalk/wire/api-versions';
import type { Actor } from '../../authz/actor.ts';
import { may } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { type VerifiedDaemon, verifiedDaemon, verifiedToken } from '../../authz/proofs.ts';
import type { Tx } from '../../db/connect.ts';
import {
  BUILT_IN_KEY_ID,
  type LiveConnection,
  makeRoomForDaemon,
  type NewDaemon,
  PSK_KEY_ID,
  USER_AUTH_KEY_ID,
  upsertDaemon,
} from '../../db/queries/daemons.ts';
import type { Worker } from '../../db/queries/job-queue.ts';
import { defaultOrganizationId } from '../../db/queries/organizations.ts';
import { provisionerKeyBySecret } from '../../db/queries/provisioner-keys.ts';
import type { Ctx } from '../context/context.ts';
import { locateOrganization, maySeeOrganization } from '../find/organization.ts';
import { enginesOf } from '../job/engines.ts';
import { mutateTags, type Tags } from '../job/tags.ts';
import { forgetDaemonGroups } from '../job/waiting.ts';
import { NIL_UUID } from '../values/ids.ts';
import { randomText, sameBytes, sha256 } from '../values/token.ts';
import { daemonObject, type JoinedDaemon } from './credential.ts';
import { isTicketFor, TICKET_HEADER } from './ticket.ts';

export const INSTALLATION_HEADER = 'platform-installation-secret';

export interface JoinRequest {
  organization: string;
  query: Record<string, unknown>;
  headers: IncomingHttpHeaders;
  /** The actor of a valid user token, if the request has one. */
  user: Actor;
  /** The secret of the built-in daemons, new at each start of the server. */
  installationSecret: string;
  /** Whether the request came over the server's own socket. The installation secret works only there. */
  ownSocket: boolean;
}

const list = (value: unknown): string[] =>
  (Array.isArray(value) ? value : value === undefined ? [] : [value]).map(String);

type Credential =
  | { kind: 'key'; id: string; organizationId: string; tags: Tags }
  | { kind: 'psk' }
  | { kind: 'built-in'; finishes: boolean }
  | { kind: 'user'; actor: Actor & { kind: 'user' } };

/** Authenticates a daemon and finds its organization and tags. Upstream defines the order of the checks. */
export async function joinDaemon(ctx: Ctx, join: JoinRequest): Promise<JoinedDaemon> {
  const name = list(join.query['name'])[0] || `daemon-${randomText(8).toLowerCase()}`;
  const credential = await credentialOf(ctx, join, name);
  const organizationId =
    credential.kind === 'key'
      ? credential.organizationId
      : (await locateOrganization(ctx, join.organization)).organizationId;
  // to a person who may not see it, it looks like one that does not exist
  if (credential.kind === 'user' && !maySeeOrganization(credential.actor, organizationId)) throw notFound();
  const requested = requestedTags(list(join.query['tag']));
  const provisioners = list(join.query['provisioner']);
  if (provisioners.length === 0) throw invalid('provisioner', 'at least one is required');
  for (const provisioner of provisioners) {
    if (provisioner !== 'terraform' && provisioner !== 'echo')
      throw invalid('provisioner', `unknown type ${JSON.stringify(provisioner)}`);
  }
  const tags = await allowedTags(ctx, credential, organizationId, requested);
  const apiVersion = list(join.query['version'])[0] ?? '1.0';
  checkApiVersion(apiVersion);
  if (name.length > 64)
    throw new AppError('internal', 'Could not register the daemon: its name is longer than 64 characters.');
  // terminals and logs show it
  if (/\p{Cc}/u.test(name)) throw invalid('name', 'must not contain control characters');
  const keyId = {
    key: credential.kind === 'key' ? credential.id : '',
    psk: PSK_KEY_ID,
    'built-in': BUILT_IN_KEY_ID,
    user: USER_AUTH_KEY_ID,
  };
  const verified = verifiedDaemon({
    organization_id: organizationId,
    name,
    key_id: keyId[credential.kind],
    credential: credentialName(credential, join.headers),
    provisioners,
    tags,
    version: String(join.headers['x-coder-build-version'] ?? '').slice(0, 64),
    api_version: apiVersion,
    ...enginesOf(join.headers),
  });
  const daemon = await ctx.sql.begin(async (tx) => {
    await makeRoom(tx, verified);
    return upsertDaemon(tx, verified);
  });
  forgetDaemonGroups(ctx);
  if (credential.kind === 'user') return { ...daemon, token: verifiedToken(credential.actor) };
  return credential.kind === 'built-in' && credential.finishes ? { ...daemon, finishes: true } : daemon;
}

/** A new connection of an authenticated daemon. */
export function connectionOf(daemon: JoinedDaemon): LiveConnection {
  return verifiedDaemon({ daemonId: daemon.id, connectionId: crypto.randomUUID() });
}

/** An authenticated daemon, as the job queue uses it. `ours`: it is a daemon of ours, which confirms its jobs. */
export function workerOf(daemon: JoinedDaemon, ours: boolean): VerifiedDaemon<Worker> {
  const { id, organization_id: organizationId, provisioners, tags, engine_versions: engineVersions } = daemon;
  return verifiedDaemon({ id, organizationId, provisioners, tags, engineVersions, confirms: ours });
}

/** The maximum number of daemons that are kept for one credential: a person's, or any other. */
const MAX_DAEMONS = { person: 20, operator: 2_000 };

/** Deletes the daemons of a credential that left longest ago when the limit is reached. */
async function makeRoom(tx: Tx, daemon: VerifiedDaemon<NewDaemon>): Promise<void> {
  const most = daemon.credential.startsWith('user:') ? MAX_DAEMONS.person : MAX_DAEMONS.operator;
  if (await makeRoomForDaemon(tx, daemon, most)) return;
  const detail = `At most ${most} daemons can be connected with one credential.`;
  throw new AppError('rate_limited', 'Too many provisioner daemons are connected.', { detail });
}

/** The daemon's identity: the same name with another credential is another daemon. Only a hash is stored. */
function credentialName(credential: Credential, headers: IncomingHttpHeaders): string {
  switch (credential.kind) {
    case 'key':
      return `key:${credential.id}`;
    case 'user':
      return `user:${credential.actor.id}`;
    case 'psk':
      return `psk:${createHash('sha256').update(String(headers['coder-provisioner-daemon-psk'])).digest('hex').slice(0, 16)}`;
    case 'built-in':
      return 'built-in';
  }
}

function invalid(field: string, detail: string): AppError {
  return new AppError('invalid', `Invalid ${field}.`, { validations: [{ field, detail }] });
}

async function credentialOf(ctx: Ctx, join: JoinRequest, name: string): Promise<Credential> {
  const { headers } = join;
  const key = headers['coder-provisioner-daemon-key'];
  const psk = headers['coder-provisioner-daemon-psk'];
  const installation = headers[INSTALLATION_HEADER];
  const found: Credential[] = [];
  if (
    join.ownSocket &&
    typeof installation === 'string' &&
    sameBytes(sha256(installation), sha256(join.installationSecret))
  ) {
    found.push({ kind: 'built-in', finishes: false });
  }
  const ticket = headers[TICKET_HEADER];
  if (typeof ticket === 'string' && (await isTicketFor(ctx.sql, ticket, name)))
    found.push({ kind: 'built-in', finishes: true });
  if (typeof key === 'string' && key !== '' && !psk) {
    const row = key.length === 43 ? await provisionerKeyBySecret(ctx.sql, sha256(key)) : undefined;
    if (row) found.push({ kind: 'key', id: row.id, organizationId: row.organization_id, tags: row.tags });
  }
  const wanted = ctx.config.provisionerDaemonPsk;
  if (typeof psk === 'string' && psk !== '' && !key && wanted !== '' && sameBytes(sha256(psk), sha256(wanted))) {
    found.push({ kind: 'psk' });
  }
  if (join.user.kind === 'user') found.push({ kind: 'user', actor: join.user });
  if (found.length > 1) throw new AppError('invalid', 'The request has more than one credential. Send only one.');
  if (!found[0]) {
    throw new AppError('unauthenticated', 'Provisioner daemon authentication failed.', {
      detail: 'Send a provisioner key, a pre-shared key or a user token.',
    });
  }
  return found[0];
}

function requestedTags(texts: string[]): Tags {
  const tags: Tags = {};
  for (const text of texts) {
    const at = text.indexOf('=');
    if (at < 1) throw invalid('tag', `${JSON.stringify(text)} is not key=value`);
    tags[text.slice(0, at)] = text.slice(at + 1);
  }
  return tags;
}

async function allowedTags(ctx: Ctx, credential: Credential, organizationId: string, requested: Tags): Promise<Tags> {
  const forbidden = (detail: string) =>
    new AppError(
      'forbidden',
      `You aren't allowed to create provisioner daemons with scope ${requested['scope'] ?? 'organization'}.`,
      { detail },
    );
  switch (credential.kind) {
    case 'key':
      if (Object.keys(requested).length > 0) throw forbidden('Tags come from the provisioner key. Do not send any.');
      return mutateTags(NIL_UUID, credential.tags);
    case 'built-in':
      if (Object.keys(requested).length > 0) throw forbidden('Built-in daemons have no tags. Do not send any.');
      if (organizationId !== (await defaultOrganizationId(ctx.sql)))
        throw forbidden('Built-in daemons are for the default organization only.');
      return mutateTags(NIL_UUID, {});
    case 'psk':
      if (organizationId !== (await defaultOrganizationId(ctx.sql)))
        throw forbidden('A pre-shared key is for the default organization only.');
      return mutateTags(NIL_UUID, requested);
    case 'user': {
      const tags = mutateTags(credential.actor.id, requested);
      const allowed = may(
        credential.actor,
        'create',
        daemonObject({ organization_id: organizationId, tags }, credential.actor.id),
      );
      if (!allowed) throw forbidden('Organization-scoped daemons need the Template Admin or Owner role.');
      return tags;
    }
  }
}

function checkApiVersion(text: string): void {
  const parts = /^(\d+)\.(\d+)$/.exec(text);
  if (!parts) throw invalid('version', `${JSON.stringify(text)} is not MAJOR.MINOR`);
  if (Number(parts[1]) !== PROVISIONER_API.major || Number(parts[2]) > PROVISIONER_API.minor) {
    throw invalid('version', `this server supports version ${formatApiVersion(PROVISIONER_API)}, not ${text}`);
  }
}
