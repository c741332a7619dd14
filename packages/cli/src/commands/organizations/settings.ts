import { text as textOf } from 'node:stream/consumers';
import type { Client } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';

interface Setting {
  /** What the settings are, for the help. */
  what: string;
  get(client: Client, org: string): Promise<object>;
  set(client: Client, org: string, body: object): Promise<object>;
}

const groupSync: Setting = {
  what: 'the settings that map claims of the identity provider to groups of an organization',
  get: async (client, org) =>
    client.call('GET /organizations/{organization}/settings/idpsync/groups', { params: await placeOf(client, org) }),
  set: async (client, org, body) =>
    client.call('PATCH /organizations/{organization}/settings/idpsync/groups', {
      params: await placeOf(client, org),
      body,
    }),
};
const roleSync: Setting = {
  what: 'the settings that map claims of the identity provider to roles in an organization',
  get: async (client, org) =>
    client.call('GET /organizations/{organization}/settings/idpsync/roles', { params: await placeOf(client, org) }),
  set: async (client, org, body) =>
    client.call('PATCH /organizations/{organization}/settings/idpsync/roles', {
      params: await placeOf(client, org),
      body,
    }),
};
const organizationSync: Setting = {
  what: 'the settings that map claims of the identity provider to organizations',
  get: (client) => client.call('GET /settings/idpsync/organization'),
  set: (client, _org, body) => client.call('PATCH /settings/idpsync/organization', { body }),
};

const workspaceSharing: Setting = {
  what: 'whose workspaces can be shared in an organization: "none", "everyone" or "service_accounts"',
  get: async (client, org) =>
    client.call('GET /organizations/{organization}/settings/workspace-sharing', { params: await placeOf(client, org) }),
  set: async (client, org, body) =>
    client.call('PATCH /organizations/{organization}/settings/workspace-sharing', {
      params: await placeOf(client, org),
      // what "show" prints has a part that an organization cannot set
      body: without(body, 'sharing_globally_disabled'),
    }),
};

const without = (body: object, name: string): object =>
  Object.fromEntries(Object.entries(body).filter(([key]) => key !== name));

const placeOf = async (client: Client, org: string) => ({ organization: (await findOrganization(client, org)).id });

const show = (setting: Setting) =>
  command(
    {
      flags: orgFlag,
      help: `Prints ${setting.what}, as JSON.`,
    },
    async (ctx, { flags }) => {
      print(ctx.io, JSON.stringify(await setting.get(await ctx.client(), flags.org), null, 2));
    },
  );

const set = (setting: Setting, name: string) =>
  command(
    {
      flags: orgFlag,
      help: `Replaces ${setting.what}. Reads JSON from standard input, in the form that "show" prints.`,
      examples: [
        { run: `coder organizations settings set ${name} < settings.json`, does: 'Apply the settings in a file' },
      ],
    },
    async (ctx, { flags }) => {
      const client = await ctx.client();
      const body = await readObject(ctx);
      print(ctx.io, JSON.stringify(await setting.set(client, flags.org, body), null, 2));
    },
  );

async function readObject(ctx: Context): Promise<object> {
  const text = await textOf(ctx.io.stdin);
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // said below
  }
  throw new AppError('invalid', 'The standard input does not contain a JSON object. Pass the settings with "< FILE".');
}

export const showGroupSync = show(groupSync);
export const showRoleSync = show(roleSync);
export const showOrganizationSync = show(organizationSync);
export const showWorkspaceSharing = show(workspaceSharing);
export const setWorkspaceSharing = set(workspaceSharing, 'workspace-sharing');
export const setGroupSync = set(groupSync, 'group-sync');
export const setRoleSync = set(roleSync, 'role-sync');
export const setOrganizationSync = set(organizationSync, 'organization-sync');
