import { jsonArray } from '../../environment.ts';
import { computed } from '../../schema.ts';
import type { DataSource } from '../../types.ts';

const secret = (description: string) => computed('string', description, { sensitive: true });

interface Role {
  name?: string;
  org_id?: string;
}

export const dataSource: DataSource = {
  schema: {
    version: 0,
    description: 'The owner of the workspace that is being built.',
    attributes: {
      id: computed('string', 'Id of the owner.'),
      name: computed('string', 'User name.'),
      full_name: computed('string', 'Full name.'),
      email: computed('string', 'Email address.'),
      groups: computed(['list', 'string'], "Names of the owner's groups."),
      login_type: computed('string', 'How the owner signs in.'),
      rbac_roles: computed(['list', ['object', { name: 'string', org_id: 'string' }]], 'Roles of the owner.'),
      session_token: secret('Session token of the owner, valid while the workspace runs.'),
      oidc_access_token: secret('Access token of the identity provider. Empty for other sign-in methods.'),
      ssh_public_key: computed('string', 'Public key for Git.'),
      ssh_private_key: secret('Private key for Git.'),
    },
  },
  read(_config, { env }) {
    const of = (name: string) => env[`CODER_WORKSPACE_OWNER${name}`] ?? '';
    return {
      id: of('_ID') || crypto.randomUUID(),
      name: of('') || 'default',
      full_name: of('_NAME') || 'default',
      email: of('_EMAIL') || 'default@example.com',
      groups: jsonArray(env, 'CODER_WORKSPACE_OWNER_GROUPS').map(String),
      login_type: of('_LOGIN_TYPE') || null,
      rbac_roles: (jsonArray(env, 'CODER_WORKSPACE_OWNER_RBAC_ROLES') as Role[]).map((role) => ({
        name: role.name ?? '',
        org_id: role.org_id ?? '',
      })),
      session_token: of('_SESSION_TOKEN'),
      oidc_access_token: of('_OIDC_ACCESS_TOKEN'),
      ssh_public_key: of('_SSH_PUBLIC_KEY'),
      ssh_private_key: of('_SSH_PRIVATE_KEY'),
    };
  },
};
