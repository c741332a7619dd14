import type { ACLAvailable, Response, TemplateACL, TemplateRole, UpdateTemplateACL } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { type GroupRow, listGroupRows } from '../../db/queries/groups.ts';
import {
  type AclChange,
  knownIn,
  membersToPermit,
  permittedUsers,
  updateTemplateAcl,
} from '../../db/queries/template-acl.ts';
import { templateById } from '../../db/queries/templates.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findTemplate } from '../find/template.ts';
import { toGroups } from '../group/read.ts';
import { anywhere, pageOf } from '../lists/search.ts';
import { slimRoles, toReducedUser } from '../user/convert.ts';
import { isUuid } from '../values/ids.ts';

/** All groups of the template's organization: anyone who may change its permissions may choose each. */
const groupsOf = (ctx: Ctx, organizationId: string, ids?: string[]): Promise<GroupRow[]> =>
  listGroupRows(ctx.lists, {
    scope: { all: true, organizationIds: [], ownerId: '', ids: null },
    own: [],
    organizationId,
    ids,
  });

/** The people and groups with a permission on a template. Only people who may change the template read it. */
export async function getTemplateAcl(ctx: Ctx, id: string): Promise<TemplateACL> {
  const template = await findTemplate(ctx, 'update', id);
  const { user_acl, group_acl, organization_id } = template;
  const users = await permittedUsers(ctx.lists, Object.keys(user_acl));
  const groups = await groupsOf(ctx, organization_id, Object.keys(group_acl));
  return {
    users: users.map((user) => ({
      ...toReducedUser(user),
      has_ai_seat: false,
      organization_ids: user.organization_ids,
      roles: slimRoles(user.rbac_roles),
      role: user_acl[user.id] as TemplateRole,
    })),
    group: (await toGroups(ctx, ctx.lists, groups)).map((group) => ({
      ...group,
      role: group_acl[group.id] as TemplateRole,
    })),
  };
}

interface AvailableQuery {
  /** Part of a name or email address. */
  q?: string;
  limit?: number;
  offset?: number;
}

/** The people and groups that can get a permission on the template. Limit and offset are for the people. */
export async function getAvailableForAcl(ctx: Ctx, id: string, query: AvailableQuery): Promise<ACLAvailable> {
  const template = await findTemplate(ctx, 'update', id);
  const text = query.q?.trim() ?? '';
  const users = await membersToPermit(ctx.lists, template.organization_id, {
    text: text === '' ? undefined : anywhere(text),
    ...pageOf(query),
  });
  const matches = ({ name, display_name }: GroupRow) =>
    [name, display_name].some((each) => each.toLowerCase().includes(text.toLowerCase()));
  const groups = (await groupsOf(ctx, template.organization_id)).filter(matches);
  return { users: users.map(toReducedUser), groups: await toGroups(ctx, ctx.lists, groups) };
}

/** Splits a request into entries to set and to remove. An entry to set must name somebody of the organization. */
function split(perms: Record<string, TemplateRole> = {}): AclChange {
  const entries = Object.entries(perms).map(([id, role]) => [id.toLowerCase(), role] as const);
  return {
    set: Object.fromEntries(entries.filter(([, role]) => role !== '')),
    remove: entries.filter(([, role]) => role === '').map(([id]) => id),
  };
}

async function check(ctx: Ctx, organizationId: string, users: AclChange, groups: AclChange): Promise<void> {
  const asked = { users: Object.keys(users.set), groups: Object.keys(groups.set) };
  const known = await knownIn(ctx.sql, organizationId, {
    users: asked.users.filter(isUuid),
    groups: asked.groups.filter(isUuid),
  });
  const wrong = (field: string, ids: string[], found: string[], what: string) =>
    ids
      .filter((id) => !found.includes(id))
      .map((id) => ({ field, detail: `${JSON.stringify(id)} is not the id of ${what} of this organization` }));
  const validations = [
    ...wrong('user_perms', asked.users, known.users, 'a member'),
    ...wrong('group_perms', asked.groups, known.groups, 'a group'),
  ];
  if (validations.length > 0) throw new AppError('invalid', 'Invalid template permissions.', { validations });
}

/** Changes the named entries of a template's permissions. The empty role removes an entry. */
export async function updateAcl(ctx: Ctx, id: string, input: UpdateTemplateACL): Promise<Response> {
  const template = await findTemplate(ctx, 'update', id);
  const users = split(input.user_perms);
  const groups = split(input.group_perms);
  await check(ctx, template.organization_id, users, groups);
  await ctx.sql.begin(async (tx) => {
    await updateTemplateAcl(tx, template, { users, groups });
    await audit(ctx, tx, {
      resourceType: 'template',
      resourceId: template.id,
      target: template.name,
      action: 'write',
      organizationId: template.organization_id,
      fields: { user_perms: input.user_perms ?? {}, group_perms: input.group_perms ?? {} },
      icon: template.icon,
      before: template,
      after: await templateById(tx, template.id),
    });
    await ctx.events.publish(tx, 'app_access_changed', { template_id: template.id });
  });
  return { message: 'The permissions of the template have been changed.' };
}
