import type { Client } from '@ropewalk/client';
import { AppError, errorText, isAppError } from '@ropewalk/kit/errors';
import type { AgentStream } from '@ropewalk/mcp';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, warn } from '../../framework/io.ts';
import { callAgent, socketFlags } from '../../lib/agent-socket.ts';
import { agentApiFlag } from './flags.ts';
import type { Reporter } from './reporter.ts';

const flags = {
  instructions: {
    type: 'string',
    env: 'CODER_MCP_INSTRUCTIONS',
    description: 'Instructions for the model about all tools together.',
  },
  'allowed-tools': {
    type: 'string[]',
    env: 'CODER_MCP_ALLOWED_TOOLS',
    description: 'Tools to offer, separated by commas. Default: all.',
  },
  'app-status-slug': {
    type: 'string',
    env: 'CODER_MCP_APP_STATUS_SLUG',
    description: 'Slug of the app that shows reports of the coding agent about its task.',
  },
  ...agentApiFlag,
  ...socketFlags,
} as const;

const help =
  'Serves the Model Context Protocol over standard input and output, with the rights of the user who is logged in. ' +
  'The program of the model starts this command: see coder exp mcp configure.';

export default command({ flags, help }, async (ctx, { flags: given }) => {
  const { createMcpServer, TOOLS } = await import('@ropewalk/mcp');
  const allowed = new Set(given['allowed-tools']);
  for (const name of allowed)
    if (!TOOLS.some((tool) => tool.name === name))
      throw new AppError(
        'invalid',
        `Unknown tool ${JSON.stringify(name)} in --allowed-tools. Tools: ${TOOLS.map(({ name }) => name).join(', ')}.`,
      );
  const client = await signedIn(ctx, { isNeeded: given['app-status-slug'] === '' });
  const stop = new AbortController();
  const signal = AbortSignal.any([ctx.signal, stop.signal]);
  const reporter = await startReporter(ctx, given, signal);
  if (!client && !reporter)
    throw new AppError('unauthenticated', 'You are not logged in. Log in with: coder login <url>');
  const tools = TOOLS.filter(
    ({ name, needs, set }) =>
      (allowed.size === 0 || allowed.has(name)) && (set === 'task' ? reporter : needs === 'agent' || client),
  );
  const [{ serveStdio }, { VERSION }] = await Promise.all([
    import('@ropewalk/mcp/stdio'),
    import('@ropewalk/kit/version'),
  ]);
  const server = createMcpServer({
    version: VERSION,
    instructions: given.instructions,
    tools,
    context: (signal) => ({
      client: client ?? notSignedIn(),
      signal,
      openSsh: (agentId, until) => openSsh(client ?? notSignedIn(), agentId, until),
      report: reporter && ((report) => reporter.report(report)),
    }),
    onProblem: (tool, err) => warn(ctx, `${tool} failed: ${errorText(err)}`),
  });
  note(ctx.io, `Serving ${tools.length} tools. Press Ctrl+C to stop.`);
  try {
    await serveStdio(server, { input: ctx.io.stdin, output: ctx.io.stdout, signal });
  } finally {
    stop.abort();
  }
});

/** `client` is absent only where the tools that need it are absent, too. */
function notSignedIn(): never {
  throw new AppError('unauthenticated', 'You are not logged in. Log in with: coder login <url>');
}

/** The client of the user who is logged in. If nobody is: undefined, with a note, or an error where it `isNeeded`. */
async function signedIn(ctx: Context, { isNeeded }: { isNeeded: boolean }): Promise<Client | undefined> {
  try {
    const client = await ctx.client();
    const { username } = await client.call('GET /users/{user}', { params: { user: 'me' } });
    note(ctx.io, `Logged in to ${client.url} as ${username}.`);
    return client;
  } catch (err) {
    const known = isAppError(err) || (err as Error).name === 'ApiError' || (err as Error).name === 'UnreachableError';
    if (!known || isNeeded) throw err;
    warn(ctx, `Tools for workspaces and templates are off. ${errorText(err)}`);
    return undefined;
  }
}

async function openSsh(client: Client, agentId: string, signal: AbortSignal): Promise<AgentStream> {
  const { openTunnel } = await import('@ropewalk/client/stream');
  return openTunnel(client, agentId, { service: 'ssh', signal });
}

interface ReporterFlags {
  'app-status-slug': string;
  'ai-agentapi-url': string;
  'socket-path': string;
}

/** Connects to the agent of this workspace. Undefined, with a note, if reports have nowhere to go. */
async function startReporter(ctx: Context, given: ReporterFlags, signal: AbortSignal): Promise<Reporter | undefined> {
  const { 'app-status-slug': slug, 'ai-agentapi-url': url, 'socket-path': path } = given;
  if (slug === '') {
    note(ctx.io, 'coder_report_task is off: no --app-status-slug.');
    return undefined;
  }
  try {
    await callAgent(path, (agent) => agent.ping({}));
  } catch (err) {
    warn(ctx, `coder_report_task is off. ${errorText(err)}`);
    return undefined;
  }
  const { createReporter } = await import('./reporter.ts');
  const reporter = createReporter(slug, {
    watched: url !== '',
    send: (update) => callAgent(path, (agent) => agent.updateAppStatus(update)),
  });
  if (url === '') return reporter;
  const { watchAgentApi } = await import('./agentapi.ts');
  void watchAgentApi(url, {
    signal,
    onObservation: (observation) =>
      void reporter.observe(observation).catch((err) => warn(ctx, `Could not report: ${errorText(err)}`)),
    onLost: (reason) => warn(ctx, `Lost the AgentAPI: ${reason}`),
  });
  return reporter;
}
