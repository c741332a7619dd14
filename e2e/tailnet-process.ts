// A relay with a STUN server, or a node, as a separate process that a test starts in a network namespace. Both exchange
// lines of JSON with the test.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  DerpRelay,
  decodeStunRequest,
  encodeStunResponse,
  KeyPair,
  parseAddress,
  TailnetNode,
} from '@ropewalk/tailnet';
import { NodeSchema } from '@ropewalk/wire/proto/tailnet';

const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

async function runRelay(address: string, stunPort: number): Promise<void> {
  const relay = new DerpRelay({ policy: { introduced: () => true, permits: () => true } });
  const server = createServer((_req, res) => res.end());
  server.on('upgrade', (_req, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: DERP\r\nConnection: Upgrade\r\n\r\n');
    void relay.accept(socket);
  });
  server.listen(0, address);
  await once(server, 'listening');
  const stun = createSocket('udp4');
  stun.on('message', (packet, from) => {
    const tx = decodeStunRequest(packet);
    const source = { address: parseAddress(from.address)!, port: from.port };
    if (tx) stun.send(encodeStunResponse(tx, source), from.port, from.address);
  });
  stun.bind(stunPort, address);
  await once(stun, 'listening');
  const bound = server.address();
  say({ url: `http://${address}:${typeof bound === 'object' && bound?.port}` });
}

function runNode(url: string, stunPort: number, own: string): void {
  const address = parseAddress(own)!;
  const node = new TailnetNode({
    ...{ keys: KeyPair.generate(), id: 1n, addresses: [address] },
    onPacket: (packet) => say({ received: packet.subarray(40).toString() }),
  });
  node.onChange((self) => {
    say({ node: Buffer.from(toBinary(NodeSchema, self)).toString('base64'), endpoints: self.endpoints });
  });
  const hostName = new URL(url).hostname;
  const region = { id: 1, code: 'one', name: 'One', isEmbedded: false, isAvoided: false };
  node.setRelayMap(new Map([[1, { ...region, servers: [{ name: '1a', hostName, url, stunPort }] }]]));
  createInterface({ input: process.stdin }).on('line', (line) => {
    const { peer, send, to } = JSON.parse(line) as { peer?: string; send?: string; to?: string };
    if (peer !== undefined) node.setPeer(Buffer.from('peer'), fromBinary(NodeSchema, Buffer.from(peer, 'base64')));
    if (send !== undefined) {
      const header = Buffer.from([0x60, 0, 0, 0, 0, Buffer.byteLength(send), 59, 64]);
      node.send(Buffer.concat([header, address, parseAddress(to!)!, Buffer.from(send)]));
      say({ path: node.status().peers[0]?.path });
    }
  });
}

const [role, where, stunPort, own] = process.argv.slice(2) as [string, string, string, string];
process.stdin.on('close', () => process.exit());
process.stdin.resume();
if (role === 'relay') await runRelay(where, Number(stunPort));
else runNode(where, Number(stunPort), own);
