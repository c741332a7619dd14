import { createUser } from '../../app/user/create.ts';
import { getUser } from '../../app/user/get.ts';
import { listUsers } from '../../app/user/list.ts';
import { getUserRoles, siteRolesFor, updateUserRoles } from '../../app/user/roles.ts';
import { defineHandlers } from '../exchange.ts';

export const userHandlers = defineHandlers({
  'GET /users': (ctx, { query }) => listUsers(ctx, query),
  'POST /users': (ctx, { body }) => createUser(ctx, body),
  'GET /users/roles': (ctx) => siteRolesFor(ctx),
  'GET /users/{user}': (ctx, { params }) => getUser(ctx, params.user),
  'GET /users/{user}/roles': (ctx, { params }) => getUserRoles(ctx, params.user),
  'PUT /users/{user}/roles': (ctx, { params, body }) => updateUserRoles(ctx, params.user, body),
});
