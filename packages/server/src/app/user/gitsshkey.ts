import type { AgentGitSSHKey, GitSSHKey } from '@ropewalk/contract';
import { type ConnectedAgent, systemTask } from '../../authz/proofs.ts';
import type { Db } from '../../db/connect.ts';
import {
  type GitSshKeyRow,
  gitSshKey,
  insertGitSshKey,
  replaceGitSshKey,
  type SshKeyPair,
} from '../../db/queries/git-ssh-keys.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import { type Ctx, type Services, systemContext } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { requireOwnerData } from '../owner-consent/owner-consent.ts';
import { time } from '../values/time.ts';
import { newSshKeyPair, type SshKeyAlgorithm } from './ssh-key-pair.ts';

async function newPair({ vault, config }: Services): Promise<SshKeyPair> {
  const { publicKey, privateKey } = await newSshKeyPair(config.sshKeygenAlgorithm as SshKeyAlgorithm);
  return { public_key: publicKey, private_key: vault.seal(privateKey) };
}

async function ensureRow(services: Services, db: Db, userId: string): Promise<GitSshKeyRow> {
  const known = await gitSshKey(db, userId);
  if (known) return known;
  await insertGitSshKey(db, systemTask(systemContext(services, 'git ssh key')), userId, await newPair(services));
  return (await gitSshKey(db, userId))!;
}

/** Returns a person's git SSH key. It is created with the account, or now for an older account. */
export async function ensureGitSshKey(services: Services, db: Db, userId: string): Promise<AgentGitSSHKey> {
  const { public_key, private_key } = await ensureRow(services, db, userId);
  return { public_key, private_key: services.vault.open(private_key) };
}

/** The Git SSH key of an agent's owner, for that agent. */
export async function agentGitSshKey(ctx: Ctx, agent: ConnectedAgent<AgentIdentity>): Promise<AgentGitSSHKey> {
  await requireOwnerData(ctx.sql, agent);
  return ensureGitSshKey(ctx, ctx.sql, agent.owner_id);
}

const toGitSSHKey = (row: GitSshKeyRow): GitSSHKey => ({
  user_id: row.user_id,
  public_key: row.public_key,
  created_at: time(row.created_at),
  updated_at: time(row.updated_at),
});

/** The public key, for pasting into a Git host. */
export async function getGitSshKey(ctx: Ctx, name: string): Promise<GitSSHKey> {
  const user = await findUser(ctx, 'read_personal', name);
  return toGitSSHKey(await ensureRow(ctx, ctx.sql, user.id));
}

/** Replaces the key pair. Workspaces use the new pair the next time they request it. */
export async function renewGitSshKey(ctx: Ctx, name: string): Promise<GitSSHKey> {
  const user = await findUser(ctx, 'update_personal', name);
  const pair = await newPair(ctx);
  return ctx.sql.begin(async (tx) => {
    const before = await gitSshKey(tx, user.id);
    const row = await replaceGitSshKey(tx, user, pair);
    await audit(ctx, tx, {
      resourceType: 'git_ssh_key',
      resourceId: user.id,
      target: user.username,
      action: 'write',
      before,
      after: row,
    });
    return toGitSSHKey(row);
  });
}
