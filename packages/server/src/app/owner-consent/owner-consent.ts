/**
 * Decides whether a build gets the secrets of its workspace's owner: the session token, the SSH key for Git, and the
 * tokens of the identity provider and of external accounts. The author of the template decides where
 * these go, so the owner has to have wanted them: docs/decisions/0060-secrets-with-consent.md.
 */

import { AppError } from '@ropewalk/kit';
import type { Db } from '../../db/connect.ts';
import { type BuildConsent, consentOfAgent, startedBefore } from '../../db/queries/owner-consent.ts';
import type { AgentIdentity, BuildParameter, BuiltWorkspace } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';

type Consent = Pick<BuildConsent, 'begun_by' | 'started_before'>;

/** The consent of a workspace's owner to a build that the actor is about to begin. */
export async function consentTo(
  { actor }: Pick<Ctx, 'actor'>,
  db: Db,
  workspace: BuiltWorkspace,
  versionId: string,
  values: readonly BuildParameter[],
): Promise<Consent> {
  if (actor.kind === 'user' && actor.id === workspace.owner_id) return { begun_by: 'owner', started_before: false };
  return {
    begun_by: actor.kind === 'system' ? 'server' : 'other',
    started_before: await startedBefore(db, workspace, versionId, values),
  };
}

/** Whether a build gets its owner's secrets. */
export const getsSecrets = ({ begun_by: by, started_before: before }: Consent): boolean =>
  by === 'owner' || (by === 'server' && before);

/** Why a build does not get its owner's secrets, without a full stop. */
export function whyNoSecrets({ begun_by: by, initiator_name, version_name }: BuildConsent, owner: string): string {
  if (by === 'other') return `${initiator_name} started it`;
  return `the server started it, and ${notStarted(owner, version_name)}`;
}

/** The reason for an automatic build of a version and values that are new to the owner. */
export const notStarted = (owner: string, versionName: string): string =>
  `${owner} has not yet started version ${JSON.stringify(versionName)} with these parameters`;

/**
 * Why an agent may not read its owner's secrets. Undefined if it may. Another person may restart what the owner has started
 * before: the same program with the same values already had the secrets.
 */
export async function ownerDataRefusal(
  db: Db,
  agent: Pick<AgentIdentity, 'id' | 'api_key_scope' | 'owner_name'>,
): Promise<AppError | undefined> {
  if (agent.api_key_scope === 'no_user_data')
    return new AppError(
      'forbidden',
      `This agent may not read data of its owner: the template sets api_key_scope to "no_user_data".`,
    );
  const consent = await consentOfAgent(db, agent.id);
  if (!consent || consent.begun_by === 'owner' || consent.started_before) return undefined;
  const owner = agent.owner_name;
  return new AppError(
    'forbidden',
    `This workspace may not read data of its owner: ${
      consent.begun_by === 'other' ? `${consent.initiator_name} started it, not ${owner}` : whyNoSecrets(consent, owner)
    }.`,
    { detail: `${owner} can restart the workspace to allow it.` },
  );
}

/**
 * Rejects an agent that may not read its owner's secrets.
 * @throws AppError `forbidden`
 */
export async function requireOwnerData(...of: Parameters<typeof ownerDataRefusal>): Promise<void> {
  const refusal = await ownerDataRefusal(...of);
  if (refusal) throw refusal;
}
