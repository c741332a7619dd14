// ssh2's server and client directly over loopback, without Nagle's delay: the floor of the SSH figures.
import { type ChildProcess, fork } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import ssh2 from 'ssh2';

const CIPHERS = ['aes128-gcm@openssh.com'] as const;
const CHUNK = Buffer.alloc(64 * 1024);

if (process.argv[2] === 'direct-server') {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const server = new ssh2.Server(
    { hostKeys: [privateKey.export({ type: 'sec1', format: 'pem' }) as string], algorithms: { cipher: [...CIPHERS] } },
    (client) => {
      client.on('authentication', (request) => request.accept());
      client.on('error', () => {});
      client.on('session', (accept) => {
        accept().on('exec', (acceptExec, _reject, { command }) => {
          const channel = acceptExec();
          let left = Number(/^bulk (\d+)$/.exec(command)?.[1] ?? 0);
          const more = () => {
            while (left > 0) {
              const part = left >= CHUNK.length ? CHUNK : CHUNK.subarray(0, left);
              left -= part.length;
              if (!channel.write(part)) {
                channel.once('drain', more);
                return;
              }
            }
            channel.exit(0);
            channel.end();
          };
          more();
        });
      });
    },
  );
  server.on('connection' as never, () => {});
  (server as unknown as { _srv: import('node:net').Server })._srv.on('connection', (socket) => socket.setNoDelay(true));
  server.listen(0, '127.0.0.1', () => process.send!((server.address() as { port: number }).port));
}

if (process.argv[2] === 'direct-client') {
  const started = performance.now();
  await (await connectDirect(Number(process.argv[3]))).exec('true');
  process.send!(performance.now() - started);
}

/**
 * One connection and exec of `true`, in ms, by a client in a separate process, like the client of a command. In the
 * bench's own warm process it would be several times faster than any new process can be. Loading the modules does not
 * count.
 */
export async function freshDirectExec(port: number): Promise<number> {
  const child = fork(import.meta.filename, ['direct-client', String(port)]);
  const [ms] = (await once(child, 'message')) as [number];
  child.disconnect();
  return ms;
}

export async function startDirectServer(): Promise<{ port: number; close(): void }> {
  const child: ChildProcess = fork(import.meta.filename, ['direct-server']);
  const [port] = (await once(child, 'message')) as [number];
  return { port, close: () => void child.kill() };
}

export async function connectDirect(port: number): Promise<{ exec(command: string): Promise<void> }> {
  const socket = connect(port, '127.0.0.1');
  socket.setNoDelay(true);
  const client = new ssh2.Client();
  // the server may disconnect first when everything is sent
  client.on('error', () => {});
  const ready = once(client, 'ready');
  client.connect({ sock: socket, username: 'x', algorithms: { cipher: [...CIPHERS] } });
  await ready;
  return {
    exec: (command) =>
      new Promise((resolve, reject) => {
        client.exec(command, (err, channel) => {
          if (err) return reject(err);
          channel.on('data', () => {});
          channel.once('close', () => {
            client.end();
            resolve();
          });
        });
      }),
  };
}
