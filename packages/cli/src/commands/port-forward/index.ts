import { ApiError, apiErrorText, type Client } from '@ropewalk/client';
import type { WorkspaceAgent } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { disableAutostartFlag } from '../../lib/flags.ts';
import { reachAgent } from '../../lib/running.ts';
import { reportUsage } from '../../lib/usage.ts';
import { findWorkspace, pickAgent, splitTarget, type Target } from '../../lib/workspace.ts';
import type { Forwarding, Opener } from './forwarding.ts';
import { parseSpecs } from './specs.ts';
import { forwardTcp } from './tcp.ts';

const flags = {
  tcp: {
    type: 'string[]',
    short: 'p',
    env: 'CODER_PORT_FORWARD_TCP',
    description:
      'TCP ports to forward, as port, local:remote or address:local:remote. Ports may be ranges, and values are separated by commas.',
  },
  udp: { type: 'string[]', env: 'CODER_PORT_FORWARD_UDP', description: 'UDP ports to forward, in the same form.' },
  ...disableAutostartFlag('CODER_SSH_DISABLE_AUTOSTART'),
} as const;

const help =
  'Listens on ports of this machine until Ctrl+C, and forwards each connection to a port of the workspace. Without an ' +
  'address, it listens on the loopback interface only.';

const examples = [
  { does: 'Forward port 8080 of this machine to port 8080 of the workspace', run: 'coder port-forward dev --tcp 8080' },
  {
    does: 'Use another port on this machine, and forward a UDP port, too',
    run: 'coder port-forward dev --tcp 8080:3000 --udp 5353',
  },
  {
    does: 'Forward a range of ports, and a port on another local address',
    run: 'coder port-forward dev --tcp 9000-9002:8000-8002,127.0.0.2:80:8080',
  },
];

/** Opens tunnels to the agent. After a restart of the workspace, opens them to the agent of the new build. */
function opener(client: Client, target: Target, first: string, signal: AbortSignal): Opener {
  let agentId = first;
  return async (service, port) => {
    const { openTunnel } = await import('@ropewalk/client/stream');
    // the programs that use the port would only try again
    const open = () => openTunnel(client, agentId, { service, port, signal, waitsForServer: true });
    try {
      return (await open()).stream;
    } catch (err) {
      const now = await findWorkspace(client, target.workspace).then(
        (workspace) => pickAgent(workspace, target.agent),
        () => undefined,
      );
      if (!now || now.id === agentId || signal.aborted) throw err;
      agentId = now.id;
      return (await open()).stream;
    }
  };
}

/** How long the agent may take to answer before the ports are ready, in ms. */
const MAX_ANSWER_MS = 10_000;

/**
 * Waits for one round trip to the agent: its last connection may be one that nobody answers any more.
 * @throws AppError `unavailable` with the reason
 */
async function checkReachable(client: Client, { id, name }: WorkspaceAgent, signal: AbortSignal): Promise<void> {
  const [{ openTunnel }, { roundTrips }] = await Promise.all([
    import('@ropewalk/client/stream'),
    import('@ropewalk/client/round-trips'),
  ]);
  const limit = AbortSignal.any([signal, AbortSignal.timeout(MAX_ANSWER_MS)]);
  try {
    const { stream } = await openTunnel(client, id, { service: 'ping', signal: limit });
    const trips = roundTrips(stream);
    await trips.measure(MAX_ANSWER_MS).finally(() => trips.close());
  } catch (err) {
    if (signal.aborted) return;
    const why = err instanceof ApiError ? apiErrorText(err) : errorText(err);
    const text = limit.aborted ? `it did not answer within ${MAX_ANSWER_MS / 1_000} s.` : why;
    throw new AppError('unavailable', `Cannot reach the agent ${name}: ${text} Check it with: coder ping`);
  }
}

export default command({ args: { workspace: {} }, flags, help, examples }, async (ctx, { args, flags: given }) => {
  const client = await ctx.client();
  const specs = [...parseSpecs('tcp', given.tcp), ...parseSpecs('udp', given.udp)];
  if (specs.length === 0) {
    throw new AppError('invalid', 'Missing ports. Use --tcp 8080 or --udp 5353:53, for example.');
  }
  const target = splitTarget(args.workspace);
  const { workspace, agent } = await reachAgent(ctx, client, target, { autostart: !given['disable-autostart'] });
  const open = opener(client, target, agent.id, ctx.signal);
  const notify = (text: string) => note(ctx.io, text);
  const forwardings: Forwarding[] = [];
  let stopUsage = () => {};
  try {
    for (const spec of specs) {
      const forward = spec.network === 'tcp' ? forwardTcp : (await import('./udp.ts')).forwardUdp;
      const forwarding = await forward(spec, open, notify);
      forwardings.push(forwarding);
      notify(`${spec.network}://${forwarding.local} -> port ${spec.remotePort} of ${workspace.name}.${agent.name}`);
    }
    const used = () => forwardings.some((one) => one.connections() > 0);
    stopUsage = reportUsage(client, workspace.id, { agent_id: agent.id, app_name: 'ssh' }, used);
    await checkReachable(client, agent, ctx.signal);
    notify('Ready!');
    if (!ctx.signal.aborted) {
      await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve(), { once: true }));
    }
    notify('Closing.');
  } finally {
    stopUsage();
    for (const forwarding of forwardings) forwarding.close();
  }
  return 0;
});
