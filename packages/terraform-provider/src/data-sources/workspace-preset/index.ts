import { iconUrl, matching, notBlank, whole } from '../../checks.ts';
import { cronError } from '../../cron.ts';
import { stableId } from '../../environment.ts';
import { type Check, computed, type NestedBlock, optional, required } from '../../schema.ts';
import type { DataSource } from '../../types.ts';
import { str } from '../../value.ts';

const HOUR = 3600;
const YEAR = 365 * 24 * HOUR;

const ttl: Check = (value) => (value === 0 ? undefined : whole(HOUR, YEAR)(value));

const timezone: Check = (value) => {
  try {
    new Intl.DateTimeFormat('en', { timeZone: value as string });
    return undefined;
  } catch {
    return `${JSON.stringify(value)} is no time zone`;
  }
};

/** Instances are counted by the hour and more: a schedule that begins and ends within one could never be met. */
const cron: Check = (value) => {
  const text = value as string;
  return cronError(text, 5) ?? matching(/^\s*\*\s/, 'must have * for the minute')(text);
};

const instances = (description: string) => required('number', description, { check: whole(0) });

const prebuilds: NestedBlock = {
  nesting: 'set',
  maxItems: 1,
  block: {
    attributes: { instances: instances('How many workspaces to keep ready.') },
    blocks: {
      expiration_policy: {
        nesting: 'set',
        maxItems: 1,
        block: {
          attributes: {
            ttl: required('number', 'Seconds after which an unclaimed workspace is deleted; 0 for never.', {
              check: ttl,
            }),
          },
        },
      },
      scheduling: {
        nesting: 'list',
        maxItems: 1,
        block: {
          attributes: { timezone: required('string', 'Time zone of the schedules.', { check: timezone }) },
          blocks: {
            schedule: {
              nesting: 'list',
              minItems: 1,
              block: {
                attributes: {
                  cron: required('string', 'When: minute (always *), hour, day of month, month, day of week.', {
                    check: cron,
                  }),
                  instances: instances('How many workspaces to keep ready then.'),
                },
              },
            },
          },
        },
      },
    },
  },
};

export const dataSource: DataSource = {
  schema: {
    version: 1,
    description: 'A named choice of parameters.',
    attributes: {
      id: computed('string', 'Identity of the preset.'),
      name: required('string', 'Name shown to people.', { check: notBlank }),
      description: optional('string', 'What the preset is for, in Markdown.'),
      icon: optional('string', 'URL of an icon.', { check: iconUrl }),
      default: optional('bool', 'Choose this preset at first; at most one is.', { default: false }),
      parameters: optional(['map', 'string'], 'Values by name of parameter.'),
    },
    blocks: { prebuilds },
  },
  read: (config) => ({ ...config, id: stableId('preset', str(config, 'name')) }),
};
