import { type ConnectionLog, type ConnectionLogResponse, ConnectionType } from '@ropewalk/contract';
import {
  type ConnectionFilter,
  type ConnectionRow,
  connectionPage,
  connectionsAfter,
  countConnections,
} from '../../db/queries/connections.ts';
import { organizationsOfRecords } from '../../db/queries/organizations.ts';
import { usersOfRecords } from '../../db/queries/users.ts';
import type { OrganizationRow, UserRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { exportParts } from '../lists/export-parts.ts';
import { badQuery, pageOf, parseSearch, searchOneOf, searchTime, searchUuid } from '../lists/search.ts';
import { toUser } from '../user/convert.ts';
import { NIL_UUID } from '../values/ids.ts';
import { optionalTime, time } from '../values/time.ts';
import { COUNT_CAP, type RecordQuery, toMinimalOrganization } from './list.ts';
import { readableRecords, searchedOrganization, searchedPeople } from './readable.ts';

const KEYS = [
  'organization',
  'workspace_owner',
  'workspace_owner_email',
  'type',
  'username',
  'user_email',
  'connected_after',
  'connected_before',
  'workspace_id',
  'connection_id',
  'status',
];
/** Types whose connections a person makes in the browser. They have a status code and a user. */
const WEB: readonly string[] = ['workspace_app', 'port_forwarding'];

async function filterOf(ctx: Ctx, q: string | undefined): Promise<ConnectionFilter> {
  const readable = readableRecords(ctx);
  const search = parseSearch(q, KEYS);
  if (search.words.length > 0) {
    throw badQuery('q', `"${search.words[0]}" has no key; valid ones are ${KEYS.join(', ')}`);
  }
  const owners = { username: 'workspace_owner', email: 'workspace_owner_email' };
  return {
    readable,
    type: searchOneOf(search, 'type', (ConnectionType as unknown as { enum: string[] }).enum),
    status: searchOneOf(search, 'status', ['ongoing', 'completed']) as ConnectionFilter['status'],
    after: searchTime(search, 'connected_after'),
    before: searchTime(search, 'connected_before'),
    workspaceId: searchUuid(search, 'workspace_id'),
    connectionId: searchUuid(search, 'connection_id'),
    ownerIds: await searchedPeople(ctx, search, owners),
    userIds: await searchedPeople(ctx, search, { username: 'username', email: 'user_email' }),
    organizationId: await searchedOrganization(ctx, search),
  };
}

/** A page of the connection log, newest first, with the number of matching connections. */
export async function listConnections(ctx: Ctx, query: RecordQuery): Promise<ConnectionLogResponse> {
  const filter = await filterOf(ctx, query.q);
  const [rows, count] = await Promise.all([
    connectionPage(ctx.lists, filter, pageOf(query)),
    countConnections(ctx.lists, filter, COUNT_CAP),
  ]);
  return { connection_logs: await toConnectionLogs(ctx, rows), count, count_cap: COUNT_CAP };
}

/** All matching connections, newest first, in parts. Checks the permission and the query before the first part. */
export async function exportConnections(ctx: Ctx, q: string | undefined): Promise<AsyncIterable<ConnectionLog[]>> {
  const filter = await filterOf(ctx, q);
  return exportParts<ConnectionRow, ConnectionLog>(
    ctx,
    (last, count) => connectionsAfter(ctx.lists, filter, last, count),
    (rows) => toConnectionLogs(ctx, rows),
  );
}

async function toConnectionLogs(ctx: Ctx, rows: readonly ConnectionRow[]): Promise<ConnectionLog[]> {
  if (rows.length === 0) return [];
  const people = rows.flatMap(({ workspace_owner_id: owner, user_id: user }) => (user ? [owner, user] : [owner]));
  const [users, organizations] = await Promise.all([
    usersOfRecords(ctx.lists, [...new Set(people)]),
    organizationsOfRecords(ctx.lists, [...new Set(rows.map((row) => row.organization_id))]),
  ]);
  return rows.map((row) => toConnectionLog(row, users, organizations.get(row.organization_id)));
}

function toConnectionLog(
  row: ConnectionRow,
  users: ReadonlyMap<string, UserRow>,
  organization: OrganizationRow | undefined,
): ConnectionLog {
  const user = row.user_id === null ? undefined : users.get(row.user_id);
  const person = user ? { user: toUser(user, []) } : {};
  return {
    id: row.id,
    connect_time: time(row.connect_time),
    organization: toMinimalOrganization(row.organization_id, organization),
    workspace_owner_id: row.workspace_owner_id,
    workspace_owner_username: users.get(row.workspace_owner_id)?.username ?? '',
    workspace_id: row.workspace_id,
    workspace_name: row.workspace_name,
    agent_name: row.agent_name,
    type: row.type as ConnectionLog['type'],
    ...(row.ip === '' ? {} : { ip: row.ip }),
    ...person,
    ...(row.user_agent ? { user_agent: row.user_agent } : {}),
    ...optionalTime('disconnect_time', row.disconnect_time),
    // the server records a tunnel with its person
    ...(row.user_id === null && !WEB.includes(row.type) ? { reported_by_agent: true } : {}),
    ...(WEB.includes(row.type)
      ? {
          web_info: {
            user_agent: row.user_agent ?? '',
            ...person,
            slug_or_port: row.slug_or_port ?? '',
            status_code: row.code ?? 0,
          },
        }
      : {
          ssh_info: {
            connection_id: row.connection_id ?? NIL_UUID,
            ...(row.disconnect_reason ? { disconnect_reason: row.disconnect_reason } : {}),
            ...optionalTime('disconnect_time', row.disconnect_time),
            ...(row.code === null ? {} : { exit_code: row.code }),
          },
        }),
  };
}
