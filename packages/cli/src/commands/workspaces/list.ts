import type { Client } from '@ropewalk/client';
import type { Workspace } from '@ropewalk/contract';
import type { Command } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { type Io, note } from '../../framework/io.ts';
import type { Example } from '../../framework/types.ts';
import { tableFlags, workspaceSearchFlags } from '../../lib/flags.ts';
import { ago, roughDuration } from '../../lib/format.ts';
import { noteOthers } from '../../lib/other-versions.ts';
import { type Columns, printRows } from '../../lib/output.ts';
import { searchWorkspaces } from '../../lib/pages.ts';
import { showAutostart } from '../../lib/schedule.ts';
import { agentsOf } from '../../lib/workspace.ts';

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

/** Maximum length of a list whose agents are read. No column shows them, and they double the server's work. */
const MAX_WITH_AGENTS = 100;

/** The workspaces of a table. A long table gets them without resources. */
async function rowsOf(client: Client, q: string): Promise<readonly Workspace[]> {
  const { workspaces, count } = await client.call('GET /workspaces', { query: { q, limit: MAX_WITH_AGENTS } });
  return count > workspaces.length ? searchWorkspaces(client, q, { withResources: false }) : workspaces;
}

/** Names the running workspaces whose agents have another version than the server. */
async function noteOtherAgents(io: Io, client: Client, workspaces: readonly Workspace[]): Promise<void> {
  const agents = workspaces
    .filter(({ latest_build: { status } }) => status === 'running')
    .flatMap((one) => agentsOf(one).map(({ version }) => ({ name: columns.workspace(one), version })));
  if (agents.length === 0) return;
  const { version } = await client.call('GET /buildinfo');
  noteOthers(io, version, agents, (names) => `agents of ${names}. Restart these workspaces to update their agents.`);
}

interface Kind {
  /** A search that all rows match. Empty for all workspaces. */
  filter: string;
  /** The command that creates such a workspace. */
  create: string;
  /** Columns without `--column`. */
  defaults: readonly (keyof typeof columns)[];
  examples: readonly Example[];
}

/** A command that lists workspaces of some kind. */
export function listCommand({ filter, create, defaults, examples }: Kind): Command {
  const flags = {
    ...workspaceSearchFlags,
    ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], defaults),
  } as const;
  return command({ flags, examples }, async (ctx, { flags: given, isSet }) => {
    const client = await ctx.client();
    const search = given.all && !isSet('search') ? '' : given.search;
    const q = [search, filter].filter((text) => text !== '').join(' ');
    const isJson = given.output === 'json';
    const workspaces = isJson ? await searchWorkspaces(client, q) : await rowsOf(client, q);
    if (workspaces.length === 0 && !isJson) {
      note(ctx.io, `No workspaces found. Create one with: ${create}`);
      return;
    }
    if (!isJson) await noteOtherAgents(ctx.io, client, workspaces);
    printRows(ctx, given, columns, workspaces);
  });
}

export default listCommand({
  filter: '',
  create: 'coder create <workspace>',
  defaults: [
    'workspace',
    'template',
    'status',
    'healthy',
    'last built',
    'current version',
    'outdated',
    'starts at',
    'stops after',
  ],
  examples: [
    { does: 'List your workspaces', run: 'coder list' },
    { does: 'List the running workspaces of all users', run: 'coder list --all --search status:running' },
    { does: 'Print names and status only', run: 'coder list --column workspace,status' },
  ],
});
