import { type Workspace, WorkspaceAgentStatus, WorkspaceStatus, type WorkspacesResponse } from '@ropewalk/contract';
import { readScope } from '../../authz/authorize.ts';
import { groupByName } from '../../db/queries/groups.ts';
import { defaultOrganization, organizationByName } from '../../db/queries/organizations.ts';
import { userByName } from '../../db/queries/users.ts';
import { searchWorkspaces } from '../../db/queries/workspaces.ts';
import { searchedOrganization } from '../audit/readable.ts';
import type { Ctx } from '../context/context.ts';
import { findWorkspace, findWorkspaceByName, ownerIdOf, viewerOf } from '../find/workspace.ts';
import { readOnce } from '../lists/read-once.ts';
import {
  anywhere,
  badQuery,
  pageOf,
  parseSearch,
  type Search,
  searchBool,
  searchList,
  searchOneOf,
  searchTime,
  searchUuid,
} from '../lists/search.ts';
import { isUuid } from '../values/ids.ts';
import { toWorkspace, toWorkspaces } from './convert.ts';

const KNOWN = [
  'owner',
  'name',
  'template',
  'status',
  'has-agent',
  'dormant',
  'deleted',
  'outdated',
  'organization',
  'id',
  'last_used_before',
  'last_used_after',
  'favorite',
  'param',
  'shared',
  'shared_with_user',
  'shared_with_group',
  'has-ai-task',
  'has_external_agent',
  'healthy',
];

/** The agent statuses that match a search for healthy or unhealthy workspaces. */
const HEALTH = { true: ['connected'], false: ['disconnected', 'timeout'] } as const;

const valuesOf = (schema: object) => (schema as { enum: readonly string[] }).enum;

/** What `status:` accepts: the status of the latest build, and `unhealthy` for a running workspace with an unhealthy agent. */
const STATUSES = [...valuesOf(WorkspaceStatus), 'unhealthy'];

interface ListQuery {
  q?: string;
  limit?: number;
  offset?: number;
  include_resources?: boolean;
}

/** Lists the workspaces that the actor may read and that match a search, for example `owner:me status:running`. */
export function listWorkspaces(ctx: Ctx, query: ListQuery): Promise<WorkspacesResponse> {
  return readOnce(ctx, ['workspaces', query.q, query.limit, query.offset, query.include_resources], () =>
    readWorkspaces(ctx, query),
  );
}

async function readWorkspaces(ctx: Ctx, query: ListQuery): Promise<WorkspacesResponse> {
  const { lists: db } = ctx;
  const search = parseSearch(query.q, KNOWN, ['param']);
  const page = pageOf(query);
  const term = (key: string) => search.terms.get(key);
  const { owner, name } = namesOf(search);
  const ownerId =
    owner?.toLowerCase() === 'me' && ctx.actor.kind === 'user'
      ? ctx.actor.id
      : owner !== null && isUuid(owner)
        ? owner
        : null;
  const healthy = searchBool(search, 'healthy');
  const agents = searchList(search, 'has-agent', valuesOf(WorkspaceAgentStatus));
  const agentStatuses = healthy !== undefined ? HEALTH[`${healthy}`] : agents.length > 0 ? agents : undefined;
  const { rows, total } = await searchWorkspaces(db, {
    scope: readScope(ctx.actor, 'workspace'),
    viewerId: viewerOf(ctx),
    ownerId,
    ownerName: ownerId === null ? owner : null,
    namePattern: name === null ? null : anywhere(name),
    template: term('template') ?? null,
    id: searchUuid(search, 'id') ?? null,
    organization: (await searchedOrganization(ctx, search)) ?? null,
    status: searchOneOf(search, 'status', STATUSES) ?? null,
    outdated: searchBool(search, 'outdated') ?? null,
    dormant: searchBool(search, 'dormant') ?? null,
    deleted: searchBool(search, 'deleted') ?? false,
    agentStatuses,
    shared: searchBool(search, 'shared'),
    sharedWithUser: await sharedWithUser(ctx, term('shared_with_user')),
    sharedWithGroup: await sharedWithGroup(ctx, term('shared_with_group')),
    favorite: searchBool(search, 'favorite'),
    hasTask: searchBool(search, 'has-ai-task'),
    hasExternalAgent: searchBool(search, 'has_external_agent'),
    lastUsedBefore: searchTime(search, 'last_used_before'),
    lastUsedAfter: searchTime(search, 'last_used_after'),
    parameters: search.pairs.filter(([key]) => key === 'param').map(([, text]) => parameterOf(text)),
    ...page,
  });
  const workspaces = await toWorkspaces(ctx, db, rows, { withResources: query.include_resources ?? true });
  return { workspaces, count: total };
}

/**
 * The owner and the part of a name that a search names with keys, or with a word such as `dev` or `me/dev`.
 * @throws AppError `invalid` if it names several
 */
function namesOf({ terms, words }: Search): { owner: string | null; name: string | null } {
  const [word, another] = words;
  const [first, second, third] = word?.split('/') ?? [];
  if (third !== undefined) throw badQuery('q', `${JSON.stringify(word)} must have only one "/"`);
  const isPair = second !== undefined;
  const [owner, name] = isPair ? [first, second] : [undefined, first];
  if (another !== undefined || (word !== undefined && terms.has('name'))) {
    throw badQuery('name', 'a search can have only one name');
  }
  if (isPair && terms.has('owner')) throw badQuery('owner', 'a search can have only one owner');
  return { owner: terms.get('owner') ?? (owner || null), name: terms.get('name') ?? (name || null) };
}

/** An id of nobody, so that a search for a person or group that does not exist finds nothing. */
const NOBODY = '';

/** The id of the person that a search names by `me`, an id or a name. */
async function sharedWithUser(ctx: Ctx, text: string | undefined): Promise<string | null> {
  if (text === undefined) return null;
  if (text.toLowerCase() === 'me') return ctx.actor.kind === 'user' ? ctx.actor.id : NOBODY;
  if (isUuid(text)) return text.toLowerCase();
  return (await userByName(ctx.lists, text))?.id ?? NOBODY;
}

/** The id of the group that a search names by its id, its name in the default organization, or `organization/name`. */
async function sharedWithGroup(ctx: Ctx, text: string | undefined): Promise<string | null> {
  if (text === undefined) return null;
  if (isUuid(text)) return text.toLowerCase();
  const [first, second, more] = text.split('/');
  if (more !== undefined || !first || second === '')
    throw badQuery('shared_with_group', 'must be the id of a group, its name, or organization/name');
  const organization = second === undefined ? defaultOrganization(ctx.lists) : organizationByName(ctx.lists, first);
  const id = (await organization)?.id;
  return (id === undefined ? undefined : await groupByName(ctx.lists, id, second ?? first))?.id ?? NOBODY;
}

/** Parses a `param:` term: `name` (the parameter has any value) or `name=value`. */
function parameterOf(text: string): { name: string; value: string | null } {
  const at = text.indexOf('=');
  return at < 0 ? { name: text, value: null } : { name: text.slice(0, at), value: text.slice(at + 1) };
}

export async function getWorkspace(ctx: Ctx, id: string, deleted: boolean): Promise<Workspace> {
  return toWorkspace(ctx, await findWorkspace(ctx, 'read', id, { deleted }));
}

export async function getWorkspaceByName(ctx: Ctx, user: string, name: string, deleted: boolean): Promise<Workspace> {
  return toWorkspace(
    ctx,
    await findWorkspaceByName(ctx, 'read', { ownerId: await ownerIdOf(ctx, user), name }, { deleted }),
  );
}
