import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { findTemplate } from '../../lib/template.ts';
import { templateFlags } from './flags.ts';

const DAYS = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'] as const;

const flags = {
  name: { type: 'string', description: 'New name of the template.' },
  'display-name': { type: 'string', description: 'Name to display instead of the name.' },
  description: { type: 'string', description: 'Description of the template.' },
  deprecated: {
    type: 'string',
    description: 'Deprecation message. Prevents new workspaces. With "", allows them again.',
  },
  icon: { type: 'string', description: 'Path or URL of the icon.' },
  'activity-bump': { type: 'duration', description: 'Time that activity adds before a workspace stops, such as 1h.' },
  'autostop-reminder': {
    type: 'duration',
    description: 'Time before a stop at which the owner gets a message, such as 30m. 0: no message.',
  },
  'autostart-requirement-weekdays': {
    type: 'string[]',
    values: [...DAYS, 'all'],
    description: 'Days on which workspaces may start automatically, separated by commas: monday to sunday, or all.',
  },
  'autostop-requirement-weekdays': {
    type: 'string[]',
    values: [...DAYS, 'none'],
    description: 'Days on which workspaces must stop, separated by commas: monday to sunday, or none.',
  },
  'autostop-requirement-weeks': { type: 'int', description: 'Number of weeks between required stops.' },
  'allow-user-cancel-workspace-jobs': {
    type: 'bool',
    default: 'true',
    description: 'Let users cancel builds of their workspaces.',
  },
  'allow-user-autostart': { type: 'bool', default: 'true', description: 'Let users set when their workspaces start.' },
  'allow-user-autostop': { type: 'bool', default: 'true', description: 'Let users set when their workspaces stop.' },
  ...templateFlags,
  ...yesFlag,
  ...orgFlag,
} as const;

/** The field of the API that each flag sets. */
const FIELDS = {
  name: 'name',
  'display-name': 'display_name',
  description: 'description',
  deprecated: 'deprecation_message',
  icon: 'icon',
  'default-ttl': 'default_ttl_ms',
  'activity-bump': 'activity_bump_ms',
  'autostop-reminder': 'time_til_autostop_notify_ms',
  'failure-ttl': 'failure_ttl_ms',
  'dormancy-threshold': 'time_til_dormant_ms',
  'dormancy-auto-deletion': 'time_til_dormant_autodelete_ms',
  'allow-user-cancel-workspace-jobs': 'allow_user_cancel_workspace_jobs',
  'allow-user-autostart': 'allow_user_autostart',
  'allow-user-autostop': 'allow_user_autostop',
  'require-active-version': 'require_active_version',
  private: 'disable_everyone_group_access',
} as const;

export default command({ args: { template: {} }, flags }, async (ctx, { args, flags: given, isSet }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const template = await findTemplate(client, organization, args.template);
  const changes: Record<string, unknown> = {};
  for (const [flag, field] of Object.entries(FIELDS) as [keyof typeof FIELDS, string][]) {
    if (isSet(flag)) changes[field] = given[flag];
  }
  if (isSet('autostart-requirement-weekdays')) {
    const days = given['autostart-requirement-weekdays'];
    changes['autostart_requirement'] = { days_of_week: days.includes('all') ? DAYS : days };
  }
  if (isSet('autostop-requirement-weekdays') || isSet('autostop-requirement-weeks')) {
    const days = isSet('autostop-requirement-weekdays')
      ? given['autostop-requirement-weekdays']
      : template.autostop_requirement.days_of_week;
    changes['autostop_requirement'] = {
      days_of_week: days.includes('none') ? [] : days,
      weeks: given['autostop-requirement-weeks'] ?? template.autostop_requirement.weeks,
    };
  }
  if (Object.keys(changes).length === 0) {
    throw new AppError('invalid', 'Nothing to change. See the flags with: coder templates edit --help');
  }
  // upstream's route replaces all of these: a missing field would return to its default
  const {
    name,
    display_name,
    description,
    icon,
    default_ttl_ms,
    activity_bump_ms,
    autostop_requirement,
    autostart_requirement,
    allow_user_autostart,
    allow_user_autostop,
    allow_user_cancel_workspace_jobs,
    failure_ttl_ms,
    time_til_dormant_ms,
    time_til_dormant_autodelete_ms,
    require_active_version,
  } = template;
  const whole = {
    name,
    display_name,
    description,
    icon,
    default_ttl_ms,
    activity_bump_ms,
    autostop_requirement,
    autostart_requirement,
    allow_user_autostart,
    allow_user_autostop,
    allow_user_cancel_workspace_jobs,
    failure_ttl_ms,
    time_til_dormant_ms,
    time_til_dormant_autodelete_ms,
    require_active_version,
  };
  await client.call('PATCH /templates/{template}', {
    params: { template: template.id },
    body: { ...whole, ...changes },
  });
  printDone(ctx, `The template ${template.name} has been changed.`);
});
