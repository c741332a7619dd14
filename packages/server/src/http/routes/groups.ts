import { getGroup, getGroupByName, groupsOfOrganization, listGroups } from '../../app/group/read.ts';
import { createGroup, deleteGroup, updateGroup } from '../../app/group/write.ts';
import { defineHandlers } from '../exchange.ts';

export const groupHandlers = defineHandlers({
  'GET /groups': (ctx, { query }) => listGroups(ctx, query),
  'GET /groups/{group}': (ctx, { params }) => getGroup(ctx, params.group),
  'PATCH /groups/{group}': (ctx, { params, body }) => updateGroup(ctx, params.group, body),
  'DELETE /groups/{group}': (ctx, { params }) => deleteGroup(ctx, params.group),
  'GET /organizations/{organization}/groups': (ctx, { params }) => groupsOfOrganization(ctx, params.organization),
  'POST /organizations/{organization}/groups': (ctx, { params, body }) => createGroup(ctx, params.organization, body),
  'GET /organizations/{organization}/groups/{groupName}': (ctx, { params }) =>
    getGroupByName(ctx, params.organization, params.groupName),
});
