import { getOrganization, listOrganizations, organizationsOfUser } from '../../app/organization/read.ts';
import { defineHandlers } from '../exchange.ts';

export const organizationHandlers = defineHandlers({
  'GET /organizations': (ctx) => listOrganizations(ctx),
  'GET /organizations/{organization}': (ctx, { params }) => getOrganization(ctx, params.organization),
  'GET /users/{user}/organizations': (ctx, { params }) => organizationsOfUser(ctx, params.user),
});
