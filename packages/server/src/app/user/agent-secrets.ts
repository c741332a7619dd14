import { errorText } from '@ropewalk/kit';
import { enabledUserSecrets } from '../../db/queries/user-secrets.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { ownerDataRefusal } from '../owner-consent/owner-consent.ts';

/** A secret as an agent gets it. */
export interface AgentSecret {
  envName: string;
  filePath: string;
  value: Uint8Array;
}

/**
 * The enabled secrets of an agent's owner: none after a build that the owner neither began nor started before. The system
 * user that owns unclaimed workspaces has none. A secret that cannot be decrypted is left out, so that the workspace works.
 */
export async function agentSecrets({ sql, vault, log }: Services, agent: AgentIdentity): Promise<AgentSecret[]> {
  const rows = await enabledUserSecrets(sql, agent.owner_id);
  if (rows.length === 0) return [];
  const refusal = await ownerDataRefusal(sql, agent);
  if (refusal) {
    log.info('an agent gets no secrets of its owner', { agent_id: agent.id, reason: refusal.message });
    return [];
  }
  return rows.flatMap(({ id, value, env_name: envName, file_path: filePath }) => {
    try {
      return [{ envName, filePath, value: Buffer.from(vault.open(value)) }];
    } catch (err) {
      log.error('a secret of a person cannot be read', { user_secret_id: id, err: errorText(err) });
      return [];
    }
  });
}
