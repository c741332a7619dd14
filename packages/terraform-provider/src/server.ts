import { chmodSync, chownSync } from 'node:fs';
import type { Http2Session } from 'node:http2';
import type { Logger } from '@ropewalk/kit';
import { serveGrpc, type UnaryHandler } from '@ropewalk/kit/grpc';
import { type Connection, providerMethods } from './provider.ts';

export interface ProviderOptions {
  /**
   * The socket to listen on. Its directory belongs to the caller and should have mode 0700. At most 107 bytes on Linux.
   */
  socketPath: string;
  /** The CODER_* variables of one job. The provider never reads the process's own environment. */
  env: Readonly<Record<string, string>>;
  /**
   * The group whose members may also connect. The process must be a member. Default: only the process's own user may
   * connect.
   */
  gid?: number;
  /**
   * A process that lives as long as the provider. Terraform sends it signal 0 every second and abandons the provider if
   * that fails. Default: this process.
   */
  pid?: number | Promise<number> | undefined;
  log: Logger;
}

export interface RunningProvider {
  /** The value for TF_REATTACH_PROVIDERS. */
  reattach: string;
  close(): Promise<void>;
}

/** The source addresses of this provider in templates, for Terraform and OpenTofu. An undeclared `coder` resolves to `hashicorp`. */
export const ADDRESSES: readonly string[] = ['registry.terraform.io', 'registry.opentofu.org'].flatMap((host) => [
  `${host}/coder/coder`,
  `${host}/hashicorp/coder`,
]);

// grpc.health.v1.HealthCheckResponse{status: SERVING}
const SERVING = new Uint8Array([0x08, 0x01]);

/**
 * Serves the coder/coder provider for one job on a Unix socket (mode 0600). Terraform connects if it runs with
 * `TF_REATTACH_PROVIDERS=<reattach>`. Any number of commands may do so, in turn or in parallel. Throws AppError
 * `unavailable` if the socket cannot be opened.
 */
export async function startProvider(options: ProviderOptions): Promise<RunningProvider> {
  const { socketPath, log } = options;
  const connections = new WeakMap<Http2Session, Connection>();
  const connection = (session: Http2Session): Connection => {
    const known = connections.get(session) ?? { url: '' };
    connections.set(session, known);
    return known;
  };
  const handlers = new Map<string, UnaryHandler>();
  for (const [path, method] of providerMethods({ ...options.env }, log))
    handlers.set(path, async (request, call) => method(request, connection(call.session)));
  handlers.set('/grpc.health.v1.Health/Check', async () => SERVING);
  const server = await serveGrpc(socketPath, handlers, log);
  if (options.gid === undefined) chmodSync(socketPath, 0o600);
  else {
    chownSync(socketPath, process.getuid!(), options.gid);
    chmodSync(socketPath, 0o660);
  }
  const pid = await Promise.resolve(options.pid).catch(async (err) => {
    await server.close();
    throw err;
  });
  const entry = {
    Protocol: 'grpc',
    ProtocolVersion: 5,
    Pid: pid ?? process.pid,
    Test: true,
    Addr: { Network: 'unix', String: socketPath },
  };
  return {
    reattach: JSON.stringify(Object.fromEntries(ADDRESSES.map((address) => [address, entry]))),
    close: () => server.close(),
  };
}
