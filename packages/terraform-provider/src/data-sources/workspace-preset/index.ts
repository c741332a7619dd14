import { cronError } from '@ropewalk/kit/cron';
import { isTimeZone } from '@ropewalk/kit/time-zone';
import { address, every, longest, notEmpty, whole } from '../../checks.ts';
import { overlapError } from '../../schedule-overlap.ts';
import { type Check, computed, type NestedBlock, optional, required } from '../../schema.ts';
import type { DataSource } from '../../types.ts';
import { blocks, str } from '../../value.ts';

const HOUR = 3600;
const YEAR = 365 * 24 * HOUR;

const ttl: Check = (value) => (value === 0 ? undefined : whole(HOUR, YEAR)(value));

const timezone: Check = (value) =>
  isTimeZone(value as string) ? undefined : `${JSON.stringify(value)} is not a time zone of the IANA database`;

const prebuilds: NestedBlock = {
  nesting: 'set',
  maxItems: 1,
  block: {
    attributes: { instances: required('number', 'Number of workspaces to keep ready.', { check: whole(0) }) },
    blocks: {
      expiration_policy: {
        nesting: 'set',
        maxItems: 1,
        block: {
          attributes: {
            ttl: required('number', 'Seconds after which an unclaimed workspace is deleted. 0 for never.', {
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
                  cron: required('string', 'Schedule: minute (always *), hour, day of month, month, day of week.', {
                    check: (value) => cronError(value as string, 'prebuild'),
                  }),
                  instances: required('number', 'Number of workspaces to keep ready during the schedule.', {
                    check: whole(),
                  }),
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
    description: 'A named set of parameter values.',
    attributes: {
      id: computed('string', 'Id of the preset.'),
      name: required('string', 'Name shown in the dashboard.', { check: notEmpty }),
      description: optional('string', 'What the preset is for, in Markdown.', { check: longest(128) }),
      icon: optional('string', 'URL of an icon.', { check: every(address, longest(256)) }),
      default: optional('bool', 'Whether this preset is selected by default. At most one can be.', { default: false }),
      parameters: optional(['map', 'string'], 'Values by parameter name.'),
    },
    blocks: { prebuilds },
  },
  read(config, { diagnostics }) {
    for (const prebuild of blocks(config, 'prebuilds'))
      for (const scheduling of blocks(prebuild, 'scheduling')) {
        const problem = overlapError(blocks(scheduling, 'schedule').map((schedule) => str(schedule, 'cron')));
        if (problem) diagnostics.error(['prebuilds'], 'Schedules overlap', `${problem}.`);
      }
    return { ...config, id: str(config, 'name') };
  },
};
