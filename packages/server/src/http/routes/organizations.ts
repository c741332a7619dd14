import { addMember, getMember, listMembers, removeMember, updateMemberRoles } from '../../app/organization/members.ts';
import {
  getOrganization,
  listOrganizations,
  organizationOfUser,
  organizationsOfUser,
} from '../../app/organization/read.ts';
import { createRole, deleteRole, listOrganizationRoles, updateRole } from '../../app/organization/roles.ts';
import { createOrganization, deleteOrganization, updateOrganization } from '../../app/organization/write.ts';
import { defineHandlers } from '../exchange.ts';

export const organizationHandlers = defineHandlers({
  'GET /organizations': (ctx) => listOrganizations(ctx),
  'GET /organizations/{organization}': (ctx, { params }) => getOrganization(ctx, params.organization),
  'POST /organizations': (ctx, { body }) => createOrganization(ctx, body),
  'PATCH /organizations/{organization}': (ctx, { params, body }) => updateOrganization(ctx, params.organization, body),
  'DELETE /organizations/{organization}': (ctx, { params }) => deleteOrganization(ctx, params.organization),
  'GET /users/{user}/organizations/{organizationname}': (ctx, { params }) =>
    organizationOfUser(ctx, params.user, params.organizationname),
  'GET /users/{user}/organizations': (ctx, { params }) => organizationsOfUser(ctx, params.user),
  'GET /organizations/{organization}/members': async (ctx, { params }) =>
    (await listMembers(ctx, params.organization)).members,
  'GET /organizations/{organization}/paginated-members': (ctx, { params, query }) =>
    listMembers(ctx, params.organization, query),
  'GET /organizations/{organization}/members/roles': (ctx, { params }) =>
    listOrganizationRoles(ctx, params.organization),
  'POST /organizations/{organization}/members/roles': (ctx, { params, body }) =>
    createRole(ctx, params.organization, body),
  'PUT /organizations/{organization}/members/roles': (ctx, { params, body }) =>
    updateRole(ctx, params.organization, body),
  'DELETE /organizations/{organization}/members/roles/{roleName}': (ctx, { params }) =>
    deleteRole(ctx, params.organization, params.roleName),
  'GET /organizations/{organization}/members/{user}': (ctx, { params }) =>
    getMember(ctx, params.organization, params.user),
  'POST /organizations/{organization}/members/{user}': (ctx, { params }) =>
    addMember(ctx, params.organization, params.user),
  'DELETE /organizations/{organization}/members/{user}': (ctx, { params }) =>
    removeMember(ctx, params.organization, params.user),
  'PUT /organizations/{organization}/members/{user}/roles': (ctx, { params, body }) =>
    updateMemberRoles(ctx, params.organization, params.user, body),
});
