import { generateKeyPairSync, randomBytes } from 'node:crypto';
import type { AgentGitSSHKey, GitSSHKey } from '@platform/contract';
import type { Db } from '../../db/connect.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { time } from './convert.ts';
import { findUser } from './find.ts';

/** An ed25519 key pair in OpenSSH's own formats. */
export function newSshKeyPair(comment: string): { publicKey: string; privateKey: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const pub = Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url');
  const seed = Buffer.from(privateKey.export({ format: 'jwk' }).d!, 'base64url');
  const string = (data: Buffer | string) => {
    const bytes = Buffer.from(data as string);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    return Buffer.concat([length, bytes]);
  };
  const type = string('ssh-ed25519');
  const blob = Buffer.concat([type, string(pub)]);
  const check = randomBytes(4);
  const secret = Buffer.concat([check, check, type, string(pub), string(Buffer.concat([seed, pub])), string(comment)]);
  const padding = Buffer.from(Array.from({ length: (8 - (secret.length % 8)) % 8 }, (_, i) => i + 1));
  const one = Buffer.from([0, 0, 0, 1]);
  const file = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    string('none'),
    string('none'),
    string(''),
    one,
    string(blob),
    string(Buffer.concat([secret, padding])),
  ]);
  const lines = file
    .toString('base64')
    .match(/.{1,70}/g)!
    .join('\n');
  return {
    publicKey: `ssh-ed25519 ${blob.toString('base64')}${comment ? ` ${comment}` : ''}\n`,
    privateKey: `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`,
  };
}

/** A person's git SSH key. It is made with the person; for one who was made before, now. */
export async function ensureGitSshKey(db: Db, userId: string): Promise<AgentGitSSHKey> {
  const find = () => db<AgentGitSSHKey[]>`SELECT public_key, private_key FROM git_ssh_keys WHERE user_id = ${userId}`;
  const [known] = await find();
  if (known) return { ...known };
  const fresh = newSshKeyPair('');
  await db`INSERT INTO git_ssh_keys (user_id, private_key, public_key)
    VALUES (${userId}, ${fresh.privateKey}, ${fresh.publicKey}) ON CONFLICT DO NOTHING`;
  const [made] = await find();
  return { ...made! };
}

type KeyRow = { user_id: string; public_key: string; created_at: Date; updated_at: Date };

const toGitSSHKey = (row: KeyRow): GitSSHKey => ({
  user_id: row.user_id,
  public_key: row.public_key,
  created_at: time(row.created_at),
  updated_at: time(row.updated_at),
});

/** The public half, for pasting into a git host. */
export async function getGitSshKey(ctx: Ctx, user: string): Promise<GitSSHKey> {
  const { id } = await findUser(ctx, 'read_personal', user);
  await ensureGitSshKey(ctx.sql, id);
  const [row] = await ctx.sql<KeyRow[]>`SELECT * FROM git_ssh_keys WHERE user_id = ${id}`;
  return toGitSSHKey(row!);
}

/** Replaces the key pair; the old one opens nothing in workspaces any more once they ask anew. */
export async function renewGitSshKey(ctx: Ctx, user: string): Promise<GitSSHKey> {
  const { id, username } = await findUser(ctx, 'update_personal', user);
  const { privateKey, publicKey } = newSshKeyPair('');
  return ctx.sql.begin(async (tx) => {
    const [row] = await tx<KeyRow[]>`INSERT INTO git_ssh_keys (user_id, private_key, public_key)
      VALUES (${id}, ${privateKey}, ${publicKey})
      ON CONFLICT (user_id) DO UPDATE SET private_key = excluded.private_key, public_key = excluded.public_key,
        updated_at = now() RETURNING *`;
    await audit(ctx, tx, { resourceType: 'git_ssh_key', resourceId: id, target: username, action: 'write' });
    return toGitSSHKey(row!);
  });
}
