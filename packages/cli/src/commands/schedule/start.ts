import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { printTable } from '../../lib/output.ts';
import { parseAutostart } from '../../lib/schedule.ts';
import { findWorkspace } from '../../lib/workspace.ts';
import { scheduleColumnNames, scheduleColumns } from './columns.ts';

export default command(
  {
    args: {
      workspace: {},
      time: { usage: 'start-time|manual' },
      days: { usage: 'day-of-week', optional: true },
      location: { optional: true },
    },
    help: 'Times are 9:30AM or 09:30. Days are Mon-Fri or Mon,Wed. Default: every day, in the time zone of this machine.',
    examples: [
      { does: 'Start the workspace on weekday mornings', run: 'coder schedule start dev 9:30AM Mon-Fri Europe/Dublin' },
      { does: 'Remove the schedule', run: 'coder schedule start dev manual' },
    ],
  },
  async (ctx, { args: { workspace: name, time, days, location } }) => {
    const client = await ctx.client();
    const workspace = await findWorkspace(client, name);
    const manual = time === 'manual';
    const template = manual
      ? undefined
      : await client.call('GET /templates/{template}', { params: { template: workspace.template_id } });
    const allowed = template?.autostart_requirement.days_of_week ?? [];
    if (allowed.length > 0 && allowed.length < 7) {
      note(ctx.io, `The template allows automatic starts only on ${allowed.join(', ')}.`);
    }
    if (manual && days !== undefined)
      throw new AppError('invalid', '"manual" removes the schedule and cannot be used with days or a time zone.');
    await client.call('PUT /workspaces/{workspace}/autostart', {
      params: { workspace: workspace.id },
      body: manual ? {} : { schedule: parseAutostart([time, days ?? '', location ?? '']) },
    });
    printTable(ctx, scheduleColumnNames, scheduleColumns, [await findWorkspace(client, name)]);
  },
);
