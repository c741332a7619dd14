import { updatePassword } from '../../app/sign-in/change-password.ts';
import type { SignInLimit } from '../../app/sign-in/sign-in-limit.ts';
import {
  deleteUser,
  getLoginType,
  getOidcClaims,
  getUserAppearance,
  setStatus,
  updateProfile,
  updateUserAppearance,
} from '../../app/user/account.ts';
import { autofillParameters } from '../../app/user/autofill.ts';
import { createUser } from '../../app/user/create.ts';
import { getUser } from '../../app/user/get.ts';
import { getGitSshKey, renewGitSshKey } from '../../app/user/gitsshkey.ts';
import { listUsers } from '../../app/user/list.ts';
import { getPreferences, updatePreferences } from '../../app/user/preferences.ts';
import { getQuietHours, updateQuietHours } from '../../app/user/quiet-hours.ts';
import { getUserRoles, siteRolesFor, updateUserRoles } from '../../app/user/roles.ts';
import { defineHandlers } from '../exchange.ts';

/** `limit` bounds the guesses of a password. */
export const userHandlers = (limit: SignInLimit) =>
  defineHandlers({
    'GET /users': (ctx, { query }) => listUsers(ctx, query),
    'POST /users': (ctx, { body }) => createUser(ctx, body),
    'GET /users/roles': (ctx) => siteRolesFor(ctx),
    'GET /users/oidc-claims': (ctx) => getOidcClaims(ctx),
    'GET /users/{user}': (ctx, { params }) => getUser(ctx, params.user),
    'DELETE /users/{user}': (ctx, { params }) => deleteUser(ctx, params.user),
    'GET /users/{user}/roles': (ctx, { params }) => getUserRoles(ctx, params.user),
    'PUT /users/{user}/roles': (ctx, { params, body }) => updateUserRoles(ctx, params.user, body),
    'PUT /users/{user}/profile': (ctx, { params, body }) => updateProfile(ctx, params.user, body),
    'PUT /users/{user}/password': (ctx, { params, body }) => updatePassword(ctx, params.user, body, limit),
    'PUT /users/{user}/status/activate': (ctx, { params }) => setStatus(ctx, params.user, 'active'),
    'PUT /users/{user}/status/suspend': (ctx, { params }) => setStatus(ctx, params.user, 'suspended'),
    'GET /users/{user}/appearance': (ctx, { params }) => getUserAppearance(ctx, params.user),
    'PUT /users/{user}/appearance': (ctx, { params, body }) => updateUserAppearance(ctx, params.user, body),
    'GET /users/{user}/preferences': (ctx, { params }) => getPreferences(ctx, params.user),
    'PUT /users/{user}/preferences': (ctx, { params, body }) => updatePreferences(ctx, params.user, body),
    'GET /users/{user}/login-type': (ctx, { params }) => getLoginType(ctx, params.user),
    'GET /users/{user}/autofill-parameters': (ctx, { params, query }) =>
      autofillParameters(ctx, params.user, query.template_id),
    'GET /users/{user}/gitsshkey': (ctx, { params }) => getGitSshKey(ctx, params.user),
    'PUT /users/{user}/gitsshkey': (ctx, { params }) => renewGitSshKey(ctx, params.user),
    'GET /users/{user}/quiet-hours': (ctx, { params }) => getQuietHours(ctx, params.user),
    'PUT /users/{user}/quiet-hours': (ctx, { params, body }) => updateQuietHours(ctx, params.user, body),
  });
