/** How much of a table one person or organization may fill. Each limit is an option. docs/decisions/0019 lists all. */
import { AppError } from '@platform/kit';
import type { Tx } from '../db/connect.ts';
import { countKeys, countPendingJobs, countProvisionerKeys, countWorkspaces, lockLimit } from '../db/queries/limits.ts';
import { together } from '../db/together.ts';
import type { Ctx } from './context.ts';

/** Keys without a name and sessions, for each token that a person may have. Editors make a key for each connection. */
const KEYS_FOR_TOKEN = 5;

interface Limited {
  count(): Promise<number>;
  what: string;
  /** The subject of the message. */
  whose: string;
  next: string;
  flag: string;
}

/**
 * Checks that a holder has less than `max` of something. The check of a concurrent request waits for this transaction.
 * @throws AppError `conflict`
 */
async function requireRoom(
  tx: Tx,
  max: number,
  holderId: string,
  { count, what, whose, next, flag }: Limited,
): Promise<void> {
  if (max <= 0) return;
  const [, has] = await together([lockLimit(tx, what, holderId), count()]);
  if (has < max) return;
  throw new AppError('conflict', `${whose} already has ${has} ${what}. ${next}`, {
    detail: `At most ${max} are allowed. An administrator sets the limit with ${flag}.`,
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

/**
 * How many jobs below the limit the count becomes exact. Fewer transactions of one person run at a time, so that they
 * cannot pass it together.
 */
const EXACT_FROM = 100;

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
