import type {
  OIDCClaimsResponse,
  UpdateUserAppearanceSettingsRequest,
  UpdateUserProfileRequest,
  User,
  UserAppearanceSettings,
  UserLoginType,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkUsername } from '@ropewalk/rules';
import { addPreferences, preferencesOf } from '../../db/queries/preferences.ts';
import { linkOfUser } from '../../db/queries/user-links.ts';
import {
  countWorkspacesOfUser,
  markUserDeleted,
  setAppearance,
  setProfile,
  setUserStatus,
} from '../../db/queries/users.ts';
import type { UserRow, UserWithRoles } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { notifyAccount } from '../notification/accounts.ts';
import { changeUser } from './change.ts';
import { takenName } from './create.ts';
import { checkFullName } from './validate.ts';

const isSelf = (ctx: Ctx, user: UserWithRoles) => ctx.actor.kind === 'user' && ctx.actor.id === user.id;

/** The kinds of sign-in whose accounts get no picture from a provider. */
const OWN_PICTURE: ReadonlySet<string> = new Set(['password', 'none']);

/** Changes the user name, the full name and the picture. */
export async function updateProfile(ctx: Ctx, name: string, input: UpdateUserProfileRequest): Promise<User> {
  const user = await findUser(ctx, 'update_personal', name);
  if (input.username !== user.username) checkUsername('username', input.username);
  const fullName = input.name ?? user.name;
  checkFullName(fullName);
  const picture = OWN_PICTURE.has(user.login_type) ? (input.avatar_url ?? user.avatar_url) : user.avatar_url;
  return changeUser(ctx, {
    user,
    action: 'write',
    write: (tx, person) => setProfile(tx, person, { username: input.username, name: fullName, avatar_url: picture }),
  }).catch((err) => {
    throw takenName(err);
  });
}

export async function setStatus(ctx: Ctx, name: string, status: 'active' | 'suspended'): Promise<User> {
  const user = await findUser(ctx, 'update', name);
  if (status === 'suspended' && isSelf(ctx, user)) throw new AppError('invalid', 'You cannot suspend yourself.');
  return changeUser(ctx, {
    user,
    action: 'write',
    losesOwner: status === 'suspended',
    fields: { status },
    async write(tx, person) {
      await setUserStatus(tx, person, status);
      if (status !== user.status) await notifyAccount(ctx, tx, status === 'active' ? 'activated' : 'suspended', user);
    },
  });
}

/** Deletes an account. Its name is free again afterwards. A person who still has workspaces cannot be deleted. */
export async function deleteUser(ctx: Ctx, name: string): Promise<undefined> {
  const user = await findUser(ctx, 'delete', name);
  if (isSelf(ctx, user)) throw new AppError('forbidden', 'You cannot delete yourself!');
  await changeUser(ctx, {
    user,
    action: 'delete',
    losesOwner: true,
    async write(tx, person) {
      const left = await countWorkspacesOfUser(tx, user.id);
      if (left > 0) {
        throw new AppError('conflict', 'This user still has workspaces. Delete them and try again.', {
          detail: `Workspaces of ${user.username}: ${left}.`,
        });
      }
      await markUserDeleted(tx, person);
      await notifyAccount(ctx, tx, 'deleted', user);
    },
  });
}

export async function getLoginType(ctx: Ctx, name: string): Promise<UserLoginType> {
  const user = await findUser(ctx, 'read_personal', name);
  return { login_type: user.login_type };
}

/** The claims of the caller's last sign-in, which the sync with the identity provider uses. */
export async function getOidcClaims(ctx: Ctx): Promise<OIDCClaimsResponse> {
  const user = await findUser(ctx, 'read_personal', 'me');
  if (user.login_type !== 'oidc') throw new AppError('invalid', 'You do not sign in with OpenID Connect.');
  return { claims: (await linkOfUser(ctx.sql, user.id, 'oidc'))?.claims ?? {} };
}

type Appearance = Pick<UserRow, 'theme_preference' | 'terminal_font'>;
type SyncedThemes = Pick<UserAppearanceSettings, 'theme_mode' | 'theme_light' | 'theme_dark'>;

const NO_SYNCED_THEMES: SyncedThemes = { theme_mode: '', theme_light: '', theme_dark: '' };

/** `stored` are the person's preferences, among which the themes are that follow the system. */
const toAppearance = (row: Appearance, stored: object): UserAppearanceSettings => ({
  theme_preference: row.theme_preference,
  terminal_font: row.terminal_font as UserAppearanceSettings['terminal_font'],
  ...NO_SYNCED_THEMES,
  ...Object.fromEntries(Object.entries(stored).filter(([key]) => Object.hasOwn(NO_SYNCED_THEMES, key))),
});

export async function getUserAppearance(ctx: Ctx, name: string): Promise<UserAppearanceSettings> {
  const user = await findUser(ctx, 'read_personal', name);
  return toAppearance(user, await preferencesOf(ctx.sql, user.id));
}

export async function updateUserAppearance(
  ctx: Ctx,
  name: string,
  input: UpdateUserAppearanceSettingsRequest,
): Promise<UserAppearanceSettings> {
  const user = await findUser(ctx, 'update_personal', name);
  const themes = syncedThemes(input);
  return ctx.sql.begin(async (tx) => {
    await setAppearance(tx, user, input);
    const { id: resourceId, username: target } = user;
    const fields = { theme_preference: input.theme_preference, terminal_font: input.terminal_font, ...themes };
    await audit(ctx, tx, { resourceType: 'user', resourceId, target, action: 'write', fields });
    // sessions keep the account that they were read with, and it has the theme
    await ctx.events.publish(tx, 'revoked', { user_ids: [user.id] });
    return toAppearance(input, await addPreferences(tx, user, themes));
  });
}

/**
 * The changes of the themes that follow the system, by upstream's rules.
 * @throws AppError `invalid` if the mode `sync` lacks a theme
 */
function syncedThemes(input: UpdateUserAppearanceSettingsRequest): Partial<SyncedThemes> {
  const { theme_mode: mode = '', theme_light: light = '', theme_dark: dark = '', theme_preference: preference } = input;
  // clients before 2.36 follow the system with this theme, so that newer ones see that
  if (mode === '') return /^auto(-|$)/.test(preference) ? { theme_mode: '' } : {};
  const missing = Object.entries({ theme_light: light, theme_dark: dark }).filter(([, value]) => value === '');
  if (mode === 'sync' && missing.length > 0) {
    throw new AppError('invalid', 'The theme mode "sync" needs a light and a dark theme.', {
      validations: missing.map(([field]) => ({ field, detail: 'is required' })),
    });
  }
  return { theme_mode: mode, ...(light && { theme_light: light }), ...(dark && { theme_dark: dark }) };
}
