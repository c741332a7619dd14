import type { TcpStream } from '../stack/tcp/stream.ts';
import type { SimulatedNetwork } from './simulated-network.ts';

/** Both ends of a connection to port 80 of `b`. */
export async function pair(net: SimulatedNetwork): Promise<{ near: TcpStream; far: TcpStream }> {
  const accepted = Promise.withResolvers<TcpStream>();
  const stop = net.b.listen(80, accepted.resolve);
  const [near, far] = await net.until(
    Promise.all([net.a.connect({ to: net.addresses.b, port: 80 }), accepted.promise]),
  );
  stop();
  return { near, far };
}

/** Everything until the end, without destroying the stream. */
export function received(stream: TcpStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  stream.on('data', (chunk) => chunks.push(chunk));
  stream.on('end', () => resolve(Buffer.concat(chunks)));
  stream.on('error', reject);
  return promise;
}
