import type { UpdateUserPreferenceSettingsRequest, UserPreferenceSettings } from '@ropewalk/contract';
import { addPreferences, preferencesOf } from '../../db/queries/preferences.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';

/** Upstream's. */
const DEFAULTS: UserPreferenceSettings = {
  task_notification_alert_dismissed: false,
  thinking_display_mode: 'auto',
  shell_tool_display_mode: 'always_collapsed',
  code_diff_display_mode: '',
  agent_chat_send_shortcut: 'enter',
};

/** The preferences among these keys. The table also has the themes that follow the system (`account.ts`). */
const chosen = (given: object) =>
  Object.fromEntries(Object.entries(given).filter(([key]) => Object.hasOwn(DEFAULTS, key)));

export async function getPreferences(ctx: Ctx, name: string): Promise<UserPreferenceSettings> {
  const user = await findUser(ctx, 'read_personal', name);
  return { ...DEFAULTS, ...chosen(await preferencesOf(ctx.sql, user.id)) };
}

/** Stores those of the preferences that are present. Returns all. */
export async function updatePreferences(
  ctx: Ctx,
  name: string,
  input: UpdateUserPreferenceSettingsRequest,
): Promise<UserPreferenceSettings> {
  const user = await findUser(ctx, 'update_personal', name);
  return ctx.sql.begin(async (tx) => {
    const all = await addPreferences(tx, user, chosen(input));
    const { id: resourceId, username: target } = user;
    await audit(ctx, tx, { resourceType: 'user', resourceId, target, action: 'write', fields: chosen(input) });
    return { ...DEFAULTS, ...chosen(all) };
  });
}
