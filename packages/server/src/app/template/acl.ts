import type { ACLAvailable, Response, TemplateACL, TemplateRole, UpdateTemplateACL } from '@ropewalk/contract';
import { membersToPermit, permittedUsers, updateTemplateAcl } from '../../db/queries/acls.ts';
import type { GroupRow } from '../../db/queries/groups.ts';
import { templateById } from '../../db/queries/templates.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findTemplate } from '../find/template.ts';
import { checkAcl, groupsOf, splitAcl } from '../group/acl.ts';
import { toGroups } from '../group/read.ts';
import { anywhere, pageOf } from '../lists/search.ts';
import { slimRoles, toReducedUser } from '../user/convert.ts';

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

const INVALID = { message: 'Invalid template permissions.', fields: ['user_perms', 'group_perms'] } as const;

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

/** Changes the named entries of a template's permissions. The empty role removes an entry. */
export async function updateAcl(ctx: Ctx, id: string, input: UpdateTemplateACL): Promise<Response> {
  const template = await findTemplate(ctx, 'update', id);
  const users = splitAcl(input.user_perms);
  const groups = splitAcl(input.group_perms);
  await checkAcl(ctx, template.organization_id, { users, groups }, INVALID);
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
