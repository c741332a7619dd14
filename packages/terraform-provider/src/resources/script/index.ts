import { cronError, lacksSeconds } from '@ropewalk/kit/cron';
import { whole } from '../../checks.ts';
import { idAttribute, optional, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';
import { isUnknown } from '../../value.ts';

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: 'A script that the agent runs at start, at stop or on a schedule.',
    attributes: {
      id: idAttribute,
      agent_id: required('string', 'The id of a coder_agent.'),
      display_name: required('string', 'Name shown in the dashboard.'),
      script: required('string', 'Text of the script.'),
      icon: optional('string', 'URL of an icon.'),
      log_path: optional('string', 'File for the output, relative to the log directory of the agent.'),
      cron: optional('string', 'When to run: second, minute, hour, day of month, month, day of week.', {
        check: (value) => cronError(value as string, 'script'),
      }),
      run_on_start: optional('bool', 'Run when the agent starts.', { default: false }),
      run_on_stop: optional('bool', 'Run when the agent stops.', { default: false }),
      start_blocks_login: optional('bool', 'Whether sign-in waits until the script has ended.', { default: false }),
      timeout: optional('number', 'Seconds that the script may take. No limit if omitted.', {
        default: 0,
        check: whole(1),
      }),
    },
  },
  validate(config, { diagnostics }) {
    const schedule = config['cron'];
    if (typeof schedule === 'string' && lacksSeconds(schedule))
      diagnostics.warning(
        ['cron'],
        'Schedule without seconds',
        `The first field is the second: ${JSON.stringify(schedule)} may not run when you expect. ` +
          `For the usual five fields write ${JSON.stringify(`0 ${schedule}`)}.`,
      );
    const { run_on_start: start, run_on_stop: stop, cron, start_blocks_login: blocks } = config;
    const set = (value: unknown) => value === true || isUnknown(value as never);
    if (!set(start) && !set(stop) && (cron === null || cron === ''))
      diagnostics.error([], 'Script never runs', 'Set at least one of run_on_start, run_on_stop and cron.');
    if (blocks === true && start === false)
      diagnostics.error(
        ['start_blocks_login'],
        'Invalid start_blocks_login',
        'start_blocks_login requires run_on_start.',
      );
  },
};
