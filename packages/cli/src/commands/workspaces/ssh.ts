import type { Client } from '@ropewalk/client';
import type { Tunnel, TunnelOptions } from '@ropewalk/client/stream';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import type { ValuesOf } from '../../framework/types.ts';
import type { ConnectionLog } from '../../lib/connection-log.ts';
import { ConnectionLost, endOfWorkspace } from '../../lib/end-of-stream.ts';
import { endWithProcess } from '../../lib/end-with-process.ts';
import { disableAutostartFlag, logDirFlag, waitFlag } from '../../lib/flags.ts';
import { type ReachOptions, reachAgent } from '../../lib/running.ts';
import { splitTarget, type Target } from '../../lib/workspace.ts';
import { parseEnv, parseForward } from '../../ssh/options.ts';
import { openAgentTunnel } from './agent-tunnel.ts';

const NOTICE_AFTER_MS = 2_000;
const EDITORS = ['vscode', 'jetbrains'] as const;

const flags = {
  stdio: {
    type: 'bool',
    env: 'CODER_SSH_STDIO',
    description: 'Forward an SSH connection over standard input and output, for use as a ProxyCommand.',
  },
  'ssh-host-prefix': {
    type: 'string',
    env: 'CODER_SSH_SSH_HOST_PREFIX',
    description: 'Prefix to remove from the name of the workspace. Used by config-ssh.',
  },
  'hostname-suffix': {
    type: 'string',
    env: 'CODER_SSH_HOSTNAME_SUFFIX',
    description: 'Suffix to remove from the name of the workspace. Used by config-ssh.',
  },
  tty: {
    type: 'bool',
    short: 't',
    env: 'CODER_SSH_TTY',
    description: 'Run the command in a terminal of the workspace. Default: only if input and output are terminals.',
  },
  'forward-agent': {
    type: 'bool',
    short: 'A',
    env: 'CODER_SSH_FORWARD_AGENT',
    description: 'Forward your SSH agent to the workspace.',
  },
  'forward-gpg': { type: 'bool', short: 'G', env: 'CODER_SSH_FORWARD_GPG', hidden: true },
  'identity-agent': {
    type: 'string',
    env: 'CODER_SSH_IDENTITY_AGENT',
    description: 'Socket of the SSH agent to forward. Default: $SSH_AUTH_SOCK.',
  },
  'workspace-poll-interval': {
    type: 'duration',
    env: 'CODER_WORKSPACE_POLL_INTERVAL',
    description: 'Interval between checks while a workspace starts. Default: 1s for its build, 250ms for its agent.',
  },
  wait: { ...waitFlag.wait, env: 'CODER_SSH_WAIT' },
  'no-wait': { type: 'bool', env: 'CODER_SSH_NO_WAIT', description: 'Alias of --wait=no.' },
  'log-dir': { ...logDirFlag['log-dir'], env: 'CODER_SSH_LOG_DIR' },
  'remote-forward': {
    type: 'string[]',
    short: 'R',
    env: 'CODER_SSH_REMOTE_FORWARD',
    description:
      'Port of the workspace to forward to this machine, as remote_port:local_address:local_port, or a Unix socket, ' +
      'as /remote/socket:/local/socket. May be repeated.',
  },
  env: {
    type: 'string[]',
    pairs: true,
    short: 'e',
    env: 'CODER_SSH_ENV',
    description: 'Environment variable for the session, as NAME=value. May be repeated.',
  },
  'network-info-dir': { type: 'string', hidden: true },
  'network-info-interval': { type: 'duration', default: '5s', hidden: true },
  ...disableAutostartFlag('CODER_SSH_DISABLE_AUTOSTART'),
  'usage-app': { type: 'string', env: 'CODER_SSH_USAGE_APP', hidden: true },
  container: {
    type: 'string',
    hidden: true,
    description: 'Container or dev container to run the session in: its name, or the beginning of its ID.',
  },
  'container-user': {
    type: 'string',
    hidden: true,
    description: "User of the session in the container. Requires --container. Default: the container's own user.",
  },
  'force-new-tunnel': { type: 'bool', hidden: true },
} as const;

/** Reads `[owner/]workspace[.agent]`, `agent.workspace.owner` or `owner--workspace[--agent]`, with the prefix or suffix of an SSH host. */
export function parseTarget(text: string, prefix: string, suffix: string): Target {
  let name = text;
  const dotted = suffix === '' ? '' : `.${suffix.replace(/^\./, '')}`;
  if (dotted !== '' && name.endsWith(dotted)) name = name.slice(0, -dotted.length);
  if (prefix !== '' && name.startsWith(prefix)) name = name.slice(prefix.length);
  if (name.includes('--') && !name.includes('/')) {
    // owner--workspace--agent, owner--workspace.agent
    const [owner, rest = '', last] = name.split('--') as [string, string?, string?];
    const [workspace, agent = last ?? ''] = rest.split('.') as [string, string?];
    return { workspace: `${owner}/${workspace}`, agent };
  }
  const parts = name.split('.');
  if (parts.length === 3 && !name.includes('/')) return { workspace: `${parts[2]}/${parts[1]}`, agent: parts[0]! };
  return splitTarget(name);
}

type Given = ValuesOf<typeof flags>;

interface Args {
  workspace: string;
  command: string[];
}

/** @throws AppError `invalid` for flags that the command does not support. */
function checkFlags(given: Given): void {
  if (given['container-user'] && !given.container)
    throw new AppError('invalid', '--container-user requires --container.');
  if (given.container && given.stdio)
    throw new AppError(
      'invalid',
      '--container cannot be used with --stdio. Connect to the agent of a dev container instead: workspace.agent.',
    );
  if (given['forward-gpg']) {
    throw new AppError('invalid', '--forward-gpg (-G, CODER_SSH_FORWARD_GPG) is not supported yet.');
  }
  const every = given['workspace-poll-interval'];
  if (every !== undefined && every <= 0)
    throw new AppError('invalid', '--workspace-poll-interval must be greater than 0.');
}

export default command(
  {
    args: { workspace: {}, command: { rest: true, optional: true, raw: true } },
    flags,
    examples: [
      { does: 'Open a shell', run: 'coder ssh dev' },
      { does: 'Run a command', run: 'coder ssh dev -- uname -a' },
      { does: 'Connect to one of several agents', run: 'coder ssh dev.main' },
      { does: "Connect to another user's workspace", run: 'coder ssh ann/dev' },
    ],
  },
  async (ctx, { args, flags: given }) => {
    checkFlags(given);
    const dir = given['log-dir'];
    if (dir === '') return connect(ctx, args, given);
    const { withConnectionLog } = await import('../../lib/connection-log.ts');
    const parent = given.stdio ? process.ppid : undefined;
    return withConnectionLog(ctx, { dir, parent }, (log) => connect(ctx, args, given, log));
  },
);

async function connect(ctx: Context, { workspace, command }: Args, given: Given, log?: ConnectionLog): Promise<number> {
  const target = parseTarget(workspace, given['ssh-host-prefix'], given['hostname-suffix']);
  // before the command starts a stopped workspace
  const env = parseEnv(given.env);
  const remoteForwards = given['remote-forward'].map(parseForward);
  const client = await ctx.client();
  log?.dialing(client.url, target);
  const wait = given['no-wait'] ? 'no' : given.wait;
  const reach = {
    autostart: !given['disable-autostart'],
    forScripts: wait === 'auto' ? wait : wait === 'yes',
    pollMs: given['workspace-poll-interval'],
  } as const;
  const notices = given.stdio ? undefined : connectionNotices(ctx);
  const tunnel = {
    service: 'ssh',
    signal: ctx.signal,
    onLost() {
      log?.lost();
      notices?.onLost();
    },
    onResumed() {
      log?.resumed();
      notices?.onResumed();
    },
    onPath: (path: string) => log?.moved(path),
  };
  // the agent reports other sessions, but cannot recognize editors
  const app = EDITORS.find((name) => name === given['usage-app']);
  const written = command.length > 0 ? command.join(' ') : undefined;
  const inContainer = async () => {
    const [{ containerSession }, { openTunnel }, { hasTerminal }] = await Promise.all([
      import('./container.ts'),
      import('@ropewalk/client/stream'),
      import('../../ssh/session.ts'),
    ]);
    const { agent } = await reachAgent(ctx, client, target, reach);
    const { agentId, command } = await containerSession(client, agent, {
      container: given.container,
      user: given['container-user'],
      command: written,
      env,
      tty: given.tty || hasTerminal(ctx.io, written),
    });
    // a container's agent can still be starting
    if (agentId !== agent.id) await reachAgent(ctx, client, { ...target, agent: agentId }, reach);
    return { ...(await openTunnel(client, agentId, tunnel)), stops: [], command };
  };
  const opening: Promise<Opened> = given.container
    ? inContainer()
    : app || given['network-info-dir']
      ? openWithReports(ctx, client, target, {
          reach,
          tunnel,
          app,
          infoDir: given['network-info-dir'],
          infoEvery: given['network-info-interval'],
        })
      : openAgentTunnel(ctx, client, target, { reach, tunnel }).then((opened) => ({ ...opened, stops: [] }));
  opening.catch(() => {});
  // the request goes out first: modules load while the server answers
  await new Promise((resolve) => setImmediate(resolve));
  const ssh = given.stdio ? undefined : await import('../../ssh/session.ts');
  const { stream, hostKey, stops, ...inside } = await opening;
  log?.connected();
  const session = async () => {
    if (given.stdio) {
      const { forwardStdio } = await import('../../ssh/stdio.ts');
      await forwardStdio(ctx.io, stream, hostKey, () => endOfWorkspace(client, target));
      return 0;
    }
    const outcome = ssh!.runSession(ctx, {
      stream,
      hostKey,
      command: 'command' in inside ? inside.command : written,
      tty: given.tty || ssh!.hasTerminal(ctx.io, written),
      env,
      remoteForwards,
      agentSocket: given['forward-agent'] ? given['identity-agent'] || ctx.env['SSH_AUTH_SOCK'] || '' : undefined,
    });
    return outcome.catch(async (err) => {
      throw (err instanceof ConnectionLost && (await endOfWorkspace(client, target))) || err;
    });
  };
  return endWithProcess(stream, stops, session);
}

interface Opened {
  stream: Tunnel['stream'];
  hostKey: Tunnel['hostKey'];
  stops: (() => unknown)[];
  /** What to run instead of the given command. */
  command?: string | undefined;
}

interface Reports {
  reach: ReachOptions;
  tunnel: TunnelOptions;
  app: (typeof EDITORS)[number] | undefined;
  infoDir: string;
  infoEvery: number;
}

/** Opens a tunnel as openAgentTunnel does. While it is open, reports its use to the server, and its state to an editor. */
async function openWithReports(ctx: Context, client: Client, target: Target, options: Reports) {
  const { app, infoDir, infoEvery } = options;
  const { openTunnel } = await import('@ropewalk/client/stream');
  const { workspace, agent } = await reachAgent(ctx, client, target, options.reach);
  const { stream, hostKey } = await openTunnel(client, agent.id, options.tunnel);
  const stops: (() => unknown)[] = [];
  if (app) {
    const { reportUsage } = await import('../../lib/usage.ts');
    stops.push(reportUsage(client, workspace.id, { agent_id: agent.id, app_name: app }));
  }
  if (infoDir) {
    const { showConnection } = await import('../../lib/network-info.ts');
    stops.push(await showConnection(ctx, client, agent.id, stream, infoDir, infoEvery));
  }
  return { stream, hostKey, stops };
}

/** Notes that a connection is lost, if that lasts, and when it is back. */
function connectionNotices(ctx: Context): { onLost(): void; onResumed(): void } {
  let timer: NodeJS.Timeout | undefined;
  let isNoticed = false;
  return {
    onLost() {
      timer = setTimeout(() => {
        isNoticed = true;
        note(ctx.io, '\r\nThe connection to the workspace was lost. The session continues when it is back.\r');
      }, NOTICE_AFTER_MS);
    },
    onResumed() {
      clearTimeout(timer);
      if (isNoticed) note(ctx.io, 'The connection is back.\r');
      isNoticed = false;
    },
  };
}
