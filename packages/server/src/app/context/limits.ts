/**
 * How much of a table one person or organization may fill. A limit that operators would change is an option.
 * docs/decisions/0019 lists all.
 */
import { AppError } from '@ropewalk/kit';
import type { Tx } from '../../db/connect.ts';
import { countUnusedUploads } from '../../db/queries/files.ts';
import {
  countCustomRoles,
  countGroups,
  countKeys,
  countOrganizations,
  countOtherPortShares,
  countPendingJobs,
  countProvisionerKeys,
  countTemplates,
  countVersions,
  countVersionsWithoutTemplate,
  countWorkspaces,
  lockLimit,
} from '../../db/queries/limits.ts';
import { countWorkspaceProxies } from '../../db/queries/workspace-proxies.ts';
import { together } from '../../db/together.ts';
import type { Ctx } from './context.ts';

/** Keys without a name and sessions, for each token that a person may have. Editors make a key for each connection. */
const KEYS_FOR_TOKEN = 5;

const MAX_ORGANIZATIONS = 1_000;
const MAX_WORKSPACE_PROXIES = 100;
const MAX_CUSTOM_ROLES_PER_ORGANIZATION = 200;
const MAX_PORT_SHARES_PER_WORKSPACE = 100;
/** Versions without a template that a person pushes in this many days. They stay, as those of a template do. */
const MAX_VERSIONS_WITHOUT_TEMPLATE = 1_000;
const DAYS_OF_VERSIONS = 30;
const DAY_MS = 86_400_000;
/** Uploads of a person that no template version uses. The purge deletes them after a day. */
const MAX_UNUSED_UPLOADS = 200;
const MAX_UNUSED_BYTES = 1024 ** 3;

interface Limited {
  count(): Promise<number>;
  what: string;
  /** The subject of the message. */
  whose: string;
  next: string;
  /** Of the option that sets the limit. Undefined: it is fixed. */
  flag?: string;
  /** How far below the limit the count becomes exact. Default: always. */
  exactFrom?: number;
}

/**
 * How far below a limit the count of frequent rows becomes exact. Fewer transactions of one person run at a time,
 * so that they cannot pass the limit together.
 */
const EXACT_FROM = 100;

/** What a holder has. The count of a concurrent request waits for this transaction, so the lock is sent first. */
async function counted<T>(tx: Tx, what: string, holderId: string, count: () => Promise<T>): Promise<T> {
  const [, has] = await together([lockLimit(tx, what, holderId), count()]);
  return has;
}

/**
 * Checks that a holder has less than `max` of something. Where the count is exact, the check of a concurrent request waits
 * for this transaction.
 * @throws AppError `conflict`
 */
async function requireRoom(
  tx: Tx,
  max: number,
  holderId: string,
  { count, what, whose, next, flag, exactFrom }: Limited,
): Promise<void> {
  if (max <= 0) return;
  if (exactFrom !== undefined && (await count()) < max - exactFrom) return;
  const has = await counted(tx, what, holderId, count);
  if (has < max) return;
  throw new AppError('conflict', `${whose} already has ${has} ${what}. ${next}`, {
    detail: `At most ${max} are allowed.${flag === undefined ? '' : ` An administrator sets the limit with ${flag}.`}`,
  });
}

export const requireTokenRoom = (
  { config, clock }: Ctx,
  tx: Tx,
  owner: { id: string; username: string },
  named: boolean,
): Promise<void> =>
  requireRoom(tx, config.maxTokensPerUser * (named ? 1 : KEYS_FOR_TOKEN), owner.id, {
    count: () => countKeys(tx, owner.id, { named, at: clock.now() }),
    what: named ? 'tokens' : 'keys and sessions',
    whose: owner.username,
    next: named ? 'Delete one with "coder tokens remove" and try again.' : 'Sign out elsewhere and try again.',
    flag: '--max-tokens-per-user',
  });

export const requireProvisionerKeyRoom = ({ config }: Ctx, tx: Tx, organizationId: string): Promise<void> =>
  requireRoom(tx, config.maxProvisionerKeysPerOrganization, organizationId, {
    count: () => countProvisionerKeys(tx, organizationId),
    what: 'provisioner keys',
    whose: 'This organization',
    next: 'Delete one with "coder provisioner keys delete" and try again.',
    flag: '--max-provisioner-keys-per-organization',
  });

export const requireWorkspaceRoom = ({ config }: Ctx, tx: Tx, owner: { id: string; username: string }): Promise<void> =>
  requireRoom(tx, config.maxWorkspacesPerUser, owner.id, {
    count: () => countWorkspaces(tx, owner.id),
    what: 'workspaces',
    whose: owner.username,
    next: 'Delete one and try again.',
    flag: '--max-workspaces-per-user',
  });

const GROUPS = { what: 'groups', whose: 'This organization', flag: '--max-groups-per-organization' };

export const requireGroupRoom = ({ config }: Ctx, tx: Tx, organizationId: string): Promise<void> =>
  requireRoom(tx, config.maxGroupsPerOrganization, organizationId, {
    ...GROUPS,
    count: () => countGroups(tx, organizationId),
    next: 'Delete one and try again.',
  });

/** How many groups an organization may still get. A concurrent transaction waits for this one. */
export async function roomForGroups({ config }: Ctx, tx: Tx, organizationId: string): Promise<number> {
  if (config.maxGroupsPerOrganization <= 0) return Number.POSITIVE_INFINITY;
  const has = await counted(tx, GROUPS.what, organizationId, () => countGroups(tx, organizationId));
  return Math.max(0, config.maxGroupsPerOrganization - has);
}

export const requireTemplateRoom = ({ config }: Ctx, tx: Tx, organizationId: string): Promise<void> =>
  requireRoom(tx, config.maxTemplatesPerOrganization, organizationId, {
    count: () => countTemplates(tx, organizationId),
    what: 'templates',
    whose: 'This organization',
    next: 'Delete one and try again.',
    flag: '--max-templates-per-organization',
  });

/**
 * Checks the room for a version of a template, or for a person's version without a template. A person's posts do not wait
 * for each other far below the limit.
 */
export const requireVersionRoom = (
  { config, clock }: Ctx,
  tx: Tx,
  { templateId, creatorId }: { templateId: string | undefined; creatorId: string },
): Promise<void> =>
  templateId === undefined
    ? requireRoom(tx, MAX_VERSIONS_WITHOUT_TEMPLATE, creatorId, {
        count: () =>
          countVersionsWithoutTemplate(tx, creatorId, new Date(clock.now().getTime() - DAYS_OF_VERSIONS * DAY_MS)),
        what: `template versions without a template in the last ${DAYS_OF_VERSIONS} days`,
        whose: 'Your account',
        next: 'Push to a template instead.',
        exactFrom: EXACT_FROM,
      })
    : requireRoom(tx, config.maxVersionsPerTemplate, templateId, {
        count: () => countVersions(tx, templateId),
        what: 'versions',
        whose: 'This template',
        next: 'Create another template.',
        flag: '--max-versions-per-template',
        exactFrom: EXACT_FROM,
      });

export const requireRoleRoom = (tx: Tx, organizationId: string): Promise<void> =>
  requireRoom(tx, MAX_CUSTOM_ROLES_PER_ORGANIZATION, organizationId, {
    count: () => countCustomRoles(tx, organizationId),
    what: 'custom roles',
    whose: 'This organization',
    next: 'Delete one and try again.',
  });

export const requireOrganizationRoom = (tx: Tx): Promise<void> =>
  requireRoom(tx, MAX_ORGANIZATIONS, 'deployment', {
    count: () => countOrganizations(tx),
    what: 'organizations',
    whose: 'This deployment',
    next: 'Delete one and try again.',
  });

export const requireWorkspaceProxyRoom = (tx: Tx): Promise<void> =>
  requireRoom(tx, MAX_WORKSPACE_PROXIES, 'deployment', {
    count: () => countWorkspaceProxies(tx),
    what: 'workspace proxies',
    whose: 'This deployment',
    next: 'Delete one with "coder wsproxy delete" and try again.',
  });

/** Checks the room for a shared port of a workspace, which may be shared already. */
export const requirePortShareRoom = (
  tx: Tx,
  workspaceId: string,
  port: { agent_name: string; port: number },
): Promise<void> =>
  requireRoom(tx, MAX_PORT_SHARES_PER_WORKSPACE, workspaceId, {
    count: () => countOtherPortShares(tx, workspaceId, port),
    what: 'shared ports',
    whose: 'This workspace',
    next: 'Stop sharing one and try again.',
  });

/**
 * Checks the room for a new upload of a person, in bytes and in number. Only uploads that nothing uses count.
 * @throws AppError `conflict`
 */
export async function requireUploadRoom(tx: Tx, ownerId: string, bytes: number): Promise<void> {
  const has = await counted(tx, 'uploads', ownerId, () => countUnusedUploads(tx, ownerId));
  if (has.count < MAX_UNUSED_UPLOADS && has.bytes + bytes <= MAX_UNUSED_BYTES) return;
  throw new AppError('conflict', 'You have too many uploads that no template version uses. Try again tomorrow.', {
    detail:
      `At most ${MAX_UNUSED_UPLOADS} uploads and ${MAX_UNUSED_BYTES} bytes are kept, and you have ${has.count} and ` +
      `${has.bytes}. The server deletes uploads that nothing uses after a day.`,
  });
}

/**
 * Checks the number of a person's pending jobs after one was inserted in this transaction. Close to the limit, the check of
 * a concurrent request waits for this transaction. It must not insert another job afterwards.
 * @throws AppError `rate_limited`
 */
export async function requirePendingJobRoom({ config }: Ctx, tx: Tx, initiatorId: string): Promise<void> {
  const max = config.maxPendingJobsPerUser;
  if (max <= 0) return;
  if ((await countPendingJobs(tx, initiatorId)) <= max - EXACT_FROM) return;
  await lockLimit(tx, 'pending jobs', initiatorId);
  if ((await countPendingJobs(tx, initiatorId)) <= max) return;
  throw new AppError(
    'rate_limited',
    `You already have ${max} builds and imports that wait for a provisioner daemon. Wait until one has started, or cancel one.`,
    { detail: 'An administrator sets the limit with --max-pending-jobs-per-user.' },
  );
}
