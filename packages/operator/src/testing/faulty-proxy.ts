import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Connection } from '../kube/connection.ts';

/**
 * Decides what happens to a request. `pass` forwards it, a number is an error status, `cut` breaks the connection. Nothing
 * answers after `hold`, which does not forward the request, and `lose`, which does.
 */
export type Fault = (request: {
  method: string;
  url: string;
  count: number;
}) => 'pass' | 'cut' | 'hold' | 'lose' | number;

export interface FaultyProxy {
  /** Goes through the proxy. */
  connection: Connection;
  /** How many requests did not pass. */
  readonly faults: number;
  close(): void;
}

const REASONS: Record<number, string> = {
  409: 'Conflict',
  410: 'Expired',
  429: 'TooManyRequests',
  503: 'ServiceUnavailable',
};

/** Stands before an API server and lets requests fail. */
export async function startFaultyProxy(to: Connection, fault: Fault): Promise<FaultyProxy> {
  let count = 0;
  let faults = 0;
  const forward = async (req: IncomingMessage, res: ServerResponse, lose = false) => {
    const { host: _, ...headers } = req.headers;
    const options = await to.options();
    const onward = request(`${to.server}${req.url}`, {
      ...options,
      method: req.method,
      headers: { ...headers, ...(options.headers as Record<string, string>) },
    });
    onward.on('response', (answer) => {
      if (lose) return void answer.resume();
      res.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(res);
      answer.on('error', () => res.destroy());
    });
    onward.on('error', () => res.destroy());
    res.on('close', () => onward.destroy());
    req.pipe(onward);
  };
  const server = createServer((req, res) => {
    const what = fault({ method: req.method!, url: req.url!, count: count++ });
    if (what === 'pass') return void forward(req, res);
    faults++;
    if (what === 'cut') return void req.socket.destroy();
    if (what === 'hold') return;
    if (what === 'lose') return void forward(req, res, true);
    req.resume();
    res.writeHead(what, { 'Content-Type': 'application/json' });
    res.end(
      JSON.stringify({ kind: 'Status', status: 'Failure', code: what, reason: REASONS[what], message: 'injected' }),
    );
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return {
    connection: { server: `http://127.0.0.1:${port}`, namespace: to.namespace, options: async () => ({}) },
    get faults() {
      return faults;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
