import { setTimeout as delay } from 'node:timers/promises';
import { text, tool, uuid } from '../tool.ts';

const POLL_MS = 1_000;
/** How long a call waits for a job to end. Clients give up after 60 s. */
const MAX_WAIT_MS = 40_000;
/** The size of the lines that one call returns, in characters. */
const MAX_CHARS = 256 * 1024;

/** The newest lines within MAX_CHARS, after a note about the others. */
export function newest(lines: readonly string[], isRunning: boolean): string[] {
  let chars = 0;
  let from = lines.length;
  while (from > 0 && chars + lines[from - 1]!.length + 3 <= MAX_CHARS) chars += lines[--from]!.length + 3;
  return [
    ...(from > 0 ? [`[${from} older lines are left out.]`] : []),
    ...lines.slice(from),
    ...(isRunning ? ['[This goes on. Call the tool again for more.]'] : []),
  ];
}

/** Waits until a job has ended, at most MAX_WAIT_MS. Returns whether it still runs. */
async function waitForJob(
  signal: AbortSignal,
  look: () => Promise<{ job: { completed_at?: string } }>,
): Promise<boolean> {
  const until = performance.now() + MAX_WAIT_MS;
  for (;;) {
    if ((await look()).job.completed_at) return false;
    if (performance.now() > until) return true;
    await delay(POLL_MS, undefined, { signal });
  }
}

export const agentLogs = tool({
  name: 'coder_get_workspace_agent_logs',
  description: 'Get the logs of a workspace agent so far, such as those of its startup scripts.',
  args: { workspace_agent_id: text('The id of the agent, as coder_get_workspace returns it.') },
  effect: 'read',
  async run({ client }, { workspace_agent_id }) {
    const lines = await client.call('GET /workspaceagents/{workspaceagent}/logs', {
      params: { workspaceagent: uuid('workspace_agent_id', workspace_agent_id) },
    });
    return newest(
      lines.map(({ output }) => output),
      false,
    );
  },
});

export const buildLogs = tool({
  name: 'coder_get_workspace_build_logs',
  description: 'Wait up to 40 seconds for a build of a workspace to end, and get its logs.',
  args: { workspace_build_id: text('The id of the build. It is in latest_build of a workspace.') },
  effect: 'read',
  async run({ client, signal }, { workspace_build_id }) {
    const params = { workspacebuild: uuid('workspace_build_id', workspace_build_id) };
    const isRunning = await waitForJob(signal, () => client.call('GET /workspacebuilds/{workspacebuild}', { params }));
    const lines = await client.call('GET /workspacebuilds/{workspacebuild}/logs', { params });
    return newest(
      lines.map(({ output }) => output),
      isRunning,
    );
  },
});

export const templateVersionLogs = tool({
  name: 'coder_get_template_version_logs',
  description: 'Wait up to 40 seconds for the import of a template version to end, and get its logs.',
  args: { template_version_id: text('The id of the template version.') },
  effect: 'read',
  async run({ client, signal }, { template_version_id }) {
    const params = { templateversion: uuid('template_version_id', template_version_id) };
    const look = () => client.call('GET /templateversions/{templateversion}', { params });
    const isRunning = await waitForJob(signal, look);
    const lines = await client.call('GET /templateversions/{templateversion}/logs', { params });
    return newest(
      lines.map(({ output }) => output),
      isRunning,
    );
  },
});
