import { errorText } from '@ropewalk/kit';
import { changesOfUserSecrets, enabledUserSecrets } from '../../db/queries/user-secrets.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { ownerDataRefusal } from '../owner-consent/owner-consent.ts';

/** A secret as an agent gets it. */
export interface AgentSecret {
  envName: string;
  filePath: string;
  value: Uint8Array;
}

export interface AgentSecrets {
  secrets: AgentSecret[];
  /** Changes with the secrets of the owner, even if the agent gets none. Empty if the owner has none. */
  version: string;
}

/**
 * The enabled secrets of an agent's owner: none after a build that the owner neither began nor started before. The system
 * user that owns unclaimed workspaces has none. A secret that cannot be decrypted is left out, so that the workspace works.
 */
export async function agentSecrets({ sql, vault, log }: Services, agent: AgentIdentity): Promise<AgentSecrets> {
  const rows = await enabledUserSecrets(sql, agent.owner_id);
  const version = versionOf(rows);
  if (rows.length === 0) return { secrets: [], version };
  const refusal = await ownerDataRefusal(sql, agent);
  if (refusal) {
    log.info('an agent gets no secrets of its owner', { agent_id: agent.id, reason: refusal.message });
    return { secrets: [], version };
  }
  const secrets = rows.flatMap(({ id, value, env_name: envName, file_path: filePath }) => {
    try {
      return [{ envName, filePath, value: Buffer.from(vault.open(value)) }];
    } catch (err) {
      log.error('a secret of a person cannot be read', { user_secret_id: id, err: errorText(err) });
      return [];
    }
  });
  return { secrets, version };
}

const versionOf = (rows: readonly { id: string; updated_at: Date }[]) =>
  rows.map(({ id, updated_at: at }) => `${id} ${at.getTime()}`).join();

/** The versions of the secrets of these people, by their ids. Those without secrets are missing. */
export async function versionsOfSecrets({ sql }: Services, ownerIds: string[]): Promise<Map<string, string>> {
  const rows = await changesOfUserSecrets(sql, ownerIds);
  const byOwner = Map.groupBy(rows, ({ user_id: id }) => id);
  return new Map([...byOwner].map(([id, secrets]) => [id, versionOf(secrets)]));
}
