import type { ProvisionerDaemon, ProvisionerJob } from '@ropewalk/contract';
import { AppError, parseDuration } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { notFound } from '../../authz/not-found.ts';
import type { Db } from '../../db/connect.ts';
import {
  BUILT_IN_KEY_ID,
  type DaemonFilter,
  daemonsOf,
  type ListFilter,
  PSK_KEY_ID,
  USER_AUTH_KEY_ID,
} from '../../db/queries/daemons.ts';
import {
  daemonsForJobs,
  isJobOf,
  type JobFilter,
  type JobOfDaemon,
  jobsOf,
  latestJobsOfDaemons,
  queuePlaces,
} from '../../db/queries/queue-lists.ts';
import type { Ctx, Services } from '../context/context.ts';
import { findInOrganization } from '../find/organization.ts';
import { jobsById } from '../job/convert.ts';
import { badQuery } from '../lists/search.ts';
import { isUuid } from '../values/ids.ts';
import { optionalTime, time } from '../values/time.ts';

const DEFAULT_LIMIT = 50;
const MOST = 1_000;
const MAX_AGE_MS = 100 * 365 * 86_400_000;
const JOB_STATUSES = ['pending', 'running', 'succeeded', 'canceling', 'canceled', 'failed', 'unknown'];
const DAEMON_STATUSES = ['offline', 'idle', 'busy'];
const PARAMETERS = ['limit', 'ids', 'status', 'tags'];

/** The query parameters: comma-separated lists, tags as a JSON object. */
export interface ListQuery {
  limit?: number;
  ids?: string;
  status?: string;
  tags?: string;
}

export interface JobQuery extends ListQuery {
  /** The UUID of the user who started the job. */
  initiator?: string;
}

export interface DaemonQuery extends ListQuery {
  /** False leaves offline daemons out, unless `status` names them. True adds them to those of `status`. */
  offline?: boolean;
  /** The longest time since the daemon was seen, such as `1h`. */
  max_age?: string;
}

function filterOf(query: ListQuery, statuses: string[], parameters = PARAMETERS): ListFilter {
  const unknown = Object.keys(query).find((key) => !parameters.includes(key));
  if (unknown) throw badQuery(unknown, 'is not a valid query param');
  const list = (text: string | undefined) => (text ? text.split(',').map((part) => part.trim()) : null);
  const limit = query.limit ?? DEFAULT_LIMIT;
  if (limit < 0) throw badQuery('limit', 'must not be negative');
  const ids = list(query.ids);
  const badId = ids?.find((id) => !isUuid(id));
  if (badId !== undefined) throw badQuery('ids', `${JSON.stringify(badId)} is not a UUID`);
  const wanted = list(query.status);
  const badStatus = wanted?.find((status) => !statuses.includes(status));
  if (badStatus !== undefined) {
    throw badQuery('status', `${JSON.stringify(badStatus)} is not one of ${statuses.join(', ')}`);
  }
  return { limit: Math.min(limit || MOST, MOST), ids, statuses: wanted, tags: query.tags ? tagsOf(query.tags) : null };
}

function tagsOf(text: string): Record<string, string> | null {
  let tags: unknown;
  try {
    tags = JSON.parse(text);
  } catch {
    throw badQuery('tags', 'must be a JSON object with string values');
  }
  if (tags === null || typeof tags !== 'object' || Array.isArray(tags)) throw badQuery('tags', 'must be a JSON object');
  const entries = Object.entries(tags);
  if (entries.some(([, value]) => typeof value !== 'string'))
    throw badQuery('tags', 'must be a JSON object with string values');
  return entries.length === 0 ? null : (tags as Record<string, string>);
}

function jobFilterOf(query: JobQuery): JobFilter {
  const filter = filterOf(query, JOB_STATUSES, [...PARAMETERS, 'initiator']);
  const initiatorId = query.initiator || null;
  if (initiatorId !== null && !isUuid(initiatorId))
    throw badQuery('initiator', `${JSON.stringify(initiatorId)} is not a UUID`);
  return { ...filter, initiatorId };
}

function daemonFilterOf(query: DaemonQuery): DaemonFilter {
  const filter = filterOf(query, DAEMON_STATUSES, [...PARAMETERS, 'offline', 'max_age']);
  const { offline, max_age: age } = query;
  const online = DAEMON_STATUSES.filter((status) => status !== 'offline');
  const statuses =
    offline === undefined
      ? filter.statuses
      : offline
        ? filter.statuses && [...filter.statuses, 'offline']
        : (filter.statuses ?? online);
  return { ...filter, statuses, maxAgeMs: age ? ageOf(age) : null };
}

function ageOf(text: string): number {
  try {
    const ms = parseDuration(text);
    if (ms >= 0 && ms <= MAX_AGE_MS) return ms;
  } catch {
    // rejected below
  }
  throw badQuery('max_age', 'must be a duration such as 1h, of at most 100 years');
}

/** Lists an organization's daemons, newest first, each with its current and its last job. */
export async function listDaemons(ctx: Ctx, organization: string, query: DaemonQuery): Promise<ProvisionerDaemon[]> {
  const { organizationId } = await findInOrganization(ctx, 'read', { type: 'provisioner_jobs' }, organization);
  const { lists: sql } = ctx;
  const rows = await daemonsOf(sql, organizationId, daemonFilterOf(query));
  const jobs = await jobsOfDaemons(
    sql,
    rows.map((row) => row.id),
  );
  return rows.map((row) => ({
    id: row.id,
    organization_id: row.organization_id,
    key_id: row.key_id,
    created_at: time(row.created_at),
    ...optionalTime('last_seen_at', row.last_seen_at),
    name: row.name,
    version: row.version,
    api_version: row.api_version,
    provisioners: row.provisioners,
    engines: row.engines,
    tags: row.tags,
    key_name: ownValue(RESERVED_KEYS, row.key_id) ?? row.key_name,
    status: row.status,
    current_job: jobs.current.get(row.id) ?? null,
    previous_job: jobs.previous.get(row.id) ?? null,
  }));
}

const RESERVED_KEYS: Record<string, string> = {
  [BUILT_IN_KEY_ID]: 'built-in',
  [USER_AUTH_KEY_ID]: 'user-auth',
  [PSK_KEY_ID]: 'psk',
};

type DaemonJob = Omit<JobOfDaemon, 'worker_id'>;

async function jobsOfDaemons(
  db: Db,
  ids: string[],
): Promise<{ current: Map<string, DaemonJob>; previous: Map<string, DaemonJob> }> {
  const pick = async (ended: boolean) => {
    const rows = await latestJobsOfDaemons(db, ids, ended);
    return new Map(rows.map(({ worker_id: worker, ...job }) => [worker, job]));
  };
  const [current, previous] = await Promise.all([pick(false), pick(true)]);
  return { current, previous };
}

/** An organization's jobs, newest first. */
export async function listJobs(ctx: Ctx, organization: string, query: JobQuery): Promise<ProvisionerJob[]> {
  const { organizationId } = await findInOrganization(ctx, 'read', { type: 'provisioner_jobs' }, organization);
  const { lists: sql } = ctx;
  return inQueue(ctx, sql, await jobsOf(sql, organizationId, jobFilterOf(query)));
}

export async function getJob(ctx: Ctx, organization: string, id: string): Promise<ProvisionerJob> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const { organizationId } = await findInOrganization(ctx, 'read', { type: 'provisioner_jobs' }, organization);
  if (!(await isJobOf(ctx.sql, id, organizationId))) throw notFound();
  return (await inQueue(ctx, ctx.sql, [id]))[0]!;
}

/** Jobs with their position among all pending jobs, whatever daemon may take them, and the daemons that match. */
async function inQueue(services: Services, db: Db, ids: string[]): Promise<ProvisionerJob[]> {
  const [jobs, places, workers] = await Promise.all([
    jobsById(services, db, ids),
    queuePlaces(db, ids),
    daemonsForJobs(db, ids),
  ]);
  const placeOf = new Map(places.map((row) => [row.id, row]));
  const workersOf = new Map(workers.map((row) => [row.id, row.workers]));
  return ids.map((id) => ({
    ...jobs.get(id)!,
    queue_position: placeOf.get(id)?.place ?? 0,
    queue_size: placeOf.get(id)?.size ?? 0,
    ...(workersOf.has(id) ? { available_workers: workersOf.get(id)! } : {}),
  }));
}
