import type { Workspace } from '@platform/contract';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { tableFlags, workspaceSearchFlags } from '../../lib/flags.ts';
import { ago, roughDuration } from '../../lib/format.ts';
import { type Columns, printRows } from '../../lib/output.ts';
import { searchWorkspaces } from '../../lib/pages.ts';
import { showAutostart } from '../../lib/schedule.ts';

const columns = {
  favorite: (one) => String(one.favorite),
  workspace: (one) => `${one.owner_name}/${one.name}`,
  'organization id': (one) => one.organization_id,
  'organization name': (one) => one.organization_name,
  template: (one) => one.template_name,
  status: displayStatus,
  healthy: (one) => (one.latest_build.status === 'running' ? String(one.health.healthy) : ''),
  'last built': (one) => ago(one.latest_build.created_at),
  'current version': (one) => one.latest_build.template_version_name,
  outdated: (one) => String(one.outdated),
  'starts at': (one) => showAutostart(one.autostart_schedule),
  'starts next': (one) => one.next_start_at ?? '',
  'stops after': (one) => (one.ttl_ms ? roughDuration(one.ttl_ms) : ''),
  'stops next': (one) => (one.latest_build.deadline ? ago(one.latest_build.deadline) : ''),
  'daily cost': (one) => String(one.latest_build.daily_cost),
} satisfies Columns<Workspace>;

/** The words that upstream's command prints, which scripts match. */
function displayStatus({ latest_build: { status } }: Workspace): string {
  const word = { pending: 'queued', running: 'started' }[status as string] ?? status;
  return word[0]!.toUpperCase() + word.slice(1);
}

const defaults = [
  'workspace',
  'template',
  'status',
  'healthy',
  'last built',
  'current version',
  'outdated',
  'starts at',
  'stops after',
] as const;

const flags = {
  ...workspaceSearchFlags,
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], defaults),
} as const;

export default command(
  {
    flags,
    examples: [
      { does: 'List your workspaces', run: 'coder list' },
      { does: 'List the running workspaces of all users', run: 'coder list --all --search status:running' },
      { does: 'Print names and status only', run: 'coder list --column workspace,status' },
    ],
  },
  async (ctx, { flags: given, isSet }) => {
    const client = await ctx.client();
    const q = given.all && !isSet('search') ? '' : given.search;
    // no column shows a resource
    const workspaces = await searchWorkspaces(client, q, { withResources: given.output === 'json' });
    if (workspaces.length === 0 && given.output !== 'json') {
      note(ctx.io, 'No workspaces found. Create one with: coder create <workspace>');
      return;
    }
    printRows(ctx, given, columns, workspaces);
  },
);
