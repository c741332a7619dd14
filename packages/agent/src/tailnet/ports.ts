// What a client finds on the agent's ports in the tailnet. The numbers are upstream's:
// 1 and 22 SSH, 2 terminals, 3 speed tests, 4 the HTTP API. Other ports below 9 are reserved: our own clients continue their
// sessions on 6. Every other port leads to the same port of the workspace's loopback.
import { errorText, type Logger } from '@ropewalk/kit';
import { formatAddress } from '@ropewalk/tailnet/address';
import type { TailnetNode } from '@ropewalk/tailnet/node/tailnet-node';
import type { Stack } from '@ropewalk/tailnet/stack/stack';
import type { TcpStream } from '@ropewalk/tailnet/stack/tcp/stream';
import { DIRECT_PORT } from '@ropewalk/wire/direct-port';
import type { Workspace } from '../workspace.ts';
import { DirectPaths } from './direct.ts';
import { forwardTcp, forwardUdp } from './forward.ts';
import { createHttpApi } from './http-api.ts';
import type { TailnetServices } from './services.ts';
import { serveSpeedtest } from './speedtest.ts';
import { serveTerminal } from './terminal.ts';

const SSH_PORTS = [1, 22];
const TERMINAL_PORT = 2;
const SPEEDTEST_PORT = 3;
const HTTP_PORT = 4;
const FIRST_FORWARDED_PORT = 9;
/** The SSH server has its own limit for idle connections. */
const SSH_KEEPALIVE_MS = 72 * 3_600_000;

export interface PortsOptions {
  stack: Stack;
  node: TailnetNode;
  services: TailnetServices;
  workspace: Workspace;
  log: Logger;
}

/** Serves the ports. Returns a function that ends what the stack does not end. */
export function servePorts({ stack, node, services, workspace, log }: PortsOptions): () => void {
  const { activity, pty, devcontainers, sessions } = services;
  const failed = (what: string) => (err: unknown) => log.debug(`${what} failed`, { err: errorText(err) });
  for (const port of SSH_PORTS) stack.listen(port, (stream) => serveSsh(stream, services));
  stack.listen(TERMINAL_PORT, (stream) => void serveTerminal(stream, pty).catch(failed('a terminal')));
  stack.listen(SPEEDTEST_PORT, (stream) => void serveSpeedtest(stream).catch(failed('a speed test')));
  const http = createHttpApi({ node, workspace, devcontainers });
  stack.listen(HTTP_PORT, (stream) => http.emit('connection', stream));
  const direct = new DirectPaths({ sessions, node });
  stack.listen(DIRECT_PORT, (stream) => direct.serve(stream));
  stack.onIncoming((incoming) => {
    if (incoming.route.port < FIRST_FORWARDED_PORT) incoming.refuse();
    else forwardTcp(incoming, activity).catch(failed('a forwarded port'));
  });
  stack.onUdpFlow((flow) => forwardUdp(flow, activity));
  return () => {
    http.closeAllConnections();
    direct.close();
  };
}

function serveSsh(stream: TcpStream, { ssh, activity }: TailnetServices): void {
  const id = activity.beginConnection('ssh', formatAddress(stream.remoteAddress));
  stream.once('close', () => activity.tunnelEnded('ssh', id, stream.errored ? errorText(stream.errored) : ''));
  stream.setKeepAlive(SSH_KEEPALIVE_MS);
  ssh.serve(stream, id);
}
