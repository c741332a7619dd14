// Our TCP/IP stack against Linux's, in a network namespace with a TUN device. Loss, reordering and delay happen on the
// link in this process, with a fixed seed, because not every kernel has `tc netem`.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { after, before, beforeEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { NetworkError, TcpStream } from '@ropewalk/tailnet';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { type Impairment, KernelNetwork, needsTun } from './tun.ts';

const MB = 1e6;
const random = seededRandom(7);
const data = Buffer.from(Uint8Array.from({ length: 4 * MB }, () => random(256)));
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

let network: KernelNetwork;
before(async () => {
  if (!needsTun.skip) network = await KernelNetwork.start();
});
after(() => network?.close());
beforeEach(() => {
  if (network) network.impairment = {};
});

/** A server on the kernel's side that runs for one test. Returns its port. */
async function kernelServer(onConnection: string): Promise<{ port: number; stop(): Promise<void> }> {
  const { line, stop } = await network.script(
    `const server = require('net').createServer({ allowHalfOpen: true }, (socket) => {
       socket.on('error', () => {});
       ${onConnection}
     });
     server.listen(0, '${network.kernel}', () => console.log(server.address().port));`,
  );
  return { port: Number(line), stop };
}

const connect = (port: number) => network.stack.connect({ to: network.addresses.kernel, port, timeoutMs: 10_000 });

/** An HTTP server behind our stack, on port 80: returns `data`, or the hash of an upload. */
function serveHttp(): { server: Server; stop(): void } {
  const server = createServer(async (req, res) => {
    if (req.method === 'PUT') res.end(sha256(await buffer(req)));
    else res.end(data);
  });
  const stop = network.stack.listen(80, (stream) => server.emit('connection', stream));
  return { server, stop };
}

const LINKS: [string, Impairment][] = [
  ['a clean link', {}],
  ['2 % loss', { loss: 0.02, delayMs: 2 }],
  ['reordering', { reordered: 0.05, delayMs: 2 }],
  ['20 ms, 1 % loss and reordering', { loss: 0.01, reordered: 0.02, delayMs: 10 }],
];

for (const [name, impairment] of LINKS) {
  test(`curl downloads from our stack and uploads to it: ${name}`, needsTun, async () => {
    network.impairment = impairment;
    const http = serveHttp();
    try {
      const url = `http://[${network.ours}]/`;
      const downloaded = await network.run('curl', '-gsS', url);
      assert.equal(sha256(Buffer.from(downloaded, 'latin1')), sha256(data));
      const [nsenter, args] = network.command('curl', '-gsS', '-T', '-', url);
      const curl = spawn(nsenter, args, { stdio: ['pipe', 'pipe', 'inherit'] });
      curl.stdin.end(data);
      assert.equal((await buffer(curl.stdout)).toString(), sha256(data));
    } finally {
      http.stop();
      http.server.closeAllConnections();
    }
  });

  test(`the kernel returns what our stack sent before its FIN: ${name}`, needsTun, async () => {
    network.impairment = impairment;
    const server = await kernelServer(
      'const all = []; socket.on("data", (c) => all.push(c)); socket.on("end", () => socket.end(Buffer.concat(all)));',
    );
    try {
      const stream = await connect(server.port);
      stream.end(data);
      assert.equal(sha256(await buffer(stream)), sha256(data));
      if (!stream.closed) await once(stream, 'close');
    } finally {
      await server.stop();
    }
  });
}

test('our stack returns what the kernel sent before its FIN', needsTun, async () => {
  const stop = network.stack.listen(7, (stream) => {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk) => chunks.push(chunk));
    stream.on('end', () => stream.end(Buffer.concat(chunks)));
  });
  try {
    const { line, stop: end } = await network.script(
      `const socket = require('net').connect({ port: 7, host: '${network.ours}', allowHalfOpen: true });
       let count = 0;
       socket.on('data', (c) => { count += c.length; });
       socket.on('end', () => console.log(count));
       socket.end(Buffer.alloc(3e6, 5));`,
    );
    assert.equal(line, '3000000');
    await end();
  } finally {
    stop();
  }
});

test('ports without a server are refused on both sides', needsTun, async () => {
  await assert.rejects(connect(1), { code: 'ECONNREFUSED' });
  const dial = (port: number) =>
    network.run(
      process.execPath,
      '-e',
      `require('net').connect(${port}, '${network.ours}').on('error', (err) => process.stdout.write(err.code)).on('connect', () => process.exit(1))`,
    );
  assert.equal(await dial(81), 'ECONNREFUSED');
  network.stack.onIncoming((incoming) => {
    if (incoming.route.port === 82) setTimeout(() => incoming.refuse(), 50);
    else void incoming.accept().then((stream) => stream.end());
  });
  assert.equal(await dial(82), 'ECONNREFUSED');
  network.stack.onIncoming(undefined);
});

test('destroy resets the kernel, and the kernel resets us', needsTun, async () => {
  const server = await kernelServer(
    'socket.on("data", (c) => { if (c[0] === 1) socket.resetAndDestroy(); else if (c[0] === 2) console.log("x"); });',
  );
  try {
    const stream = await connect(server.port);
    stream.write(Buffer.of(1));
    const [error] = (await once(stream, 'error')) as [NetworkError];
    assert.equal(error.code, 'ECONNRESET');
  } finally {
    await server.stop();
  }
  const streams: TcpStream[] = [];
  const stop = network.stack.listen(9, (stream) => {
    streams.push(stream);
    stream.destroy();
  });
  const output = await network.run(
    process.execPath,
    '-e',
    `require('net').connect(9, '${network.ours}').on('error', (err) => process.stdout.write(err.code)).resume()`,
  );
  assert.equal(output, 'ECONNRESET');
  stop();
});

test('a kernel that does not read stops our stack, and it goes on afterwards', needsTun, async () => {
  const server = await kernelServer(
    'let count = 0; socket.pause(); setTimeout(() => { socket.on("data", (c) => { count += c.length; }); socket.resume(); }, 1500); socket.on("end", () => socket.end(String(count)));',
  );
  try {
    const stream = await connect(server.port);
    const big = Buffer.alloc(16 * MB, 3);
    stream.end(big);
    await delay(1_000);
    assert.ok(stream.connection.sender!.buffered > 0, 'the kernel has taken everything');
    assert.equal((await buffer(stream)).toString(), `${big.length}`);
  } finally {
    await server.stop();
  }
});

test('answers the ping of the kernel, and gets its answer', needsTun, async () => {
  const output = await network.run('busybox', 'ping6', '-c', '2', network.ours);
  assert.match(output, / 0% packet loss/);
  assert.ok((await network.stack.ping(network.addresses.kernel)) < 5_000);
});

test('datagrams pass in both directions', needsTun, async () => {
  const { line, stop } = await network.script(
    `const socket = require('dgram').createSocket('udp6');
     socket.on('message', (m, from) => socket.send(Buffer.concat([Buffer.from('k'), m]), from.port, from.address));
     socket.bind(0, '${network.kernel}', () => console.log(socket.address().port));`,
  );
  try {
    const { promise, resolve } = Promise.withResolvers<Buffer>();
    const flow = network.stack.openUdp(network.addresses.kernel, Number(line), { onMessage: resolve });
    flow.send(Buffer.from('hello'));
    assert.equal((await promise).toString(), 'khello');
    flow.close();
  } finally {
    await stop();
  }
  network.stack.onUdpFlow((flow) =>
    flow.handle({ onMessage: (payload) => flow.send(Buffer.concat([Buffer.from('o'), payload])) }),
  );
  const output = await network.run(
    process.execPath,
    '-e',
    `const socket = require('dgram').createSocket('udp6');
     socket.on('message', (m) => { process.stdout.write(m); socket.close(); });
     socket.send('hello', 5353, '${network.ours}');`,
  );
  assert.equal(output, 'ohello');
  network.stack.onUdpFlow(undefined);
});
