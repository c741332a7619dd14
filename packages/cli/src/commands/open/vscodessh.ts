import { AppError } from '@ropewalk/kit/errors';
import { readConfig } from '../../framework/config-dir.ts';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import type { ValuesOf } from '../../framework/types.ts';
import type { ConnectionLog } from '../../lib/connection-log.ts';
import { endOfWorkspace } from '../../lib/end-of-stream.ts';
import { endWithProcess } from '../../lib/end-with-process.ts';
import { logDirFlag, waitFlag } from '../../lib/flags.ts';
import { showConnection } from '../../lib/network-info.ts';
import { reachAgent } from '../../lib/running.ts';
import { reportUsage } from '../../lib/usage.ts';
import type { Target } from '../../lib/workspace.ts';

const flags = {
  'network-info-dir': { type: 'string', description: 'Directory for the connection statistics that the editor shows.' },
  'network-info-interval': {
    type: 'duration',
    default: '5s',
    description: 'Interval between updates of the statistics.',
  },
  'session-token-file': { type: 'string', required: true, description: 'File with the session token.' },
  'url-file': { type: 'string', required: true, description: 'File with the URL of the server.' },
  ...logDirFlag,
  ...waitFlag,
} as const;

/** `coder-vscode[.server]--owner--workspace[--agent]`, or the agent after a dot. @throws AppError `invalid`. */
export function parseEditorHost(host: string): Target {
  const [prefix = '', owner = '', rest = '', last = '', more] = host.split('--');
  const dot = rest.indexOf('.');
  const workspace = dot < 0 ? rest : rest.slice(0, dot);
  if (prefix === '' || owner === '' || workspace === '' || more !== undefined) {
    throw new AppError(
      'invalid',
      `Invalid host ${JSON.stringify(host)}: write it as coder-vscode--owner--workspace--agent.`,
    );
  }
  return { workspace: `${owner}/${workspace}`, agent: last || (dot < 0 ? '' : rest.slice(dot + 1)) };
}

function contentOf(file: string, flag: string): string {
  const text = readConfig(file);
  if (text === '') throw new AppError('invalid', `--${flag}: the file ${file} is empty or missing.`);
  return text;
}

/** The ProxyCommand of the VS Code extension: SSH over stdin and stdout, with the credentials that it keeps in files. */
export default command({ args: { host: {} }, flags }, async (ctx, { args, flags: given }) => {
  const target = parseEditorHost(args.host);
  const dir = given['log-dir'];
  if (dir === '') return connect(ctx, target, given);
  const { withConnectionLog } = await import('../../lib/connection-log.ts');
  return withConnectionLog(ctx, { dir, parent: process.ppid }, (log) => connect(ctx, target, given, log));
});

async function connect(
  ctx: Context,
  target: Target,
  given: ValuesOf<typeof flags>,
  log?: ConnectionLog,
): Promise<number> {
  const url = contentOf(given['url-file'], 'url-file');
  const client = await ctx.clientOf(url, contentOf(given['session-token-file'], 'session-token-file'));
  log?.dialing(client.url, target);
  const { workspace, agent } = await reachAgent(ctx, client, target, {
    autostart: true,
    forScripts: given.wait === 'auto' ? 'auto' : given.wait === 'yes',
    reason: 'vscode_connection',
  });
  const [{ openTunnel }, { forwardStdio }] = await Promise.all([
    import('@ropewalk/client/stream'),
    import('../../ssh/stdio.ts'),
  ]);
  const { stream, hostKey } = await openTunnel(client, agent.id, {
    service: 'ssh',
    signal: ctx.signal,
    onLost: () => log?.lost(),
    onResumed: () => log?.resumed(),
  });
  log?.connected();
  const stops: (() => unknown)[] = [reportUsage(client, workspace.id, { agent_id: agent.id, app_name: 'vscode' })];
  const infoDir = given['network-info-dir'];
  if (infoDir) stops.push(await showConnection(ctx, client, agent.id, stream, infoDir, given['network-info-interval']));
  return endWithProcess(stream, stops, async () => {
    await forwardStdio(ctx.io, stream, hostKey, () => endOfWorkspace(client, target));
    return 0;
  });
}
