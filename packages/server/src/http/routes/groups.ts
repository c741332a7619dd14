import {
  getGroup,
  getGroupByName,
  groupsOfOrganization,
  listGroupMembers,
  listGroups,
  listMembersByName,
} from '../../app/group/read.ts';
import { createGroup, deleteGroup, updateGroup } from '../../app/group/write.ts';
import { defineHandlers } from '../exchange.ts';

export const groupHandlers = defineHandlers({
  'GET /groups': (ctx, { query }) => listGroups(ctx, query),
  'GET /groups/{group}': (ctx, { params, query }) => getGroup(ctx, params.group, query),
  'GET /groups/{group}/members': (ctx, { params, query }) => listGroupMembers(ctx, params.group, query),
  'PATCH /groups/{group}': (ctx, { params, body }) => updateGroup(ctx, params.group, body),
  'DELETE /groups/{group}': (ctx, { params }) => deleteGroup(ctx, params.group),
  'GET /organizations/{organization}/groups': (ctx, { params }) => groupsOfOrganization(ctx, params.organization),
  'POST /organizations/{organization}/groups': (ctx, { params, body }) => createGroup(ctx, params.organization, body),
  'GET /organizations/{organization}/groups/{groupName}': (ctx, { params, query }) =>
    getGroupByName(ctx, params.organization, params.groupName, query),
  'GET /organizations/{organization}/groups/{groupName}/members': (ctx, { params, query }) =>
    listMembersByName(ctx, params.organization, params.groupName, query),
});
