// Scripted daemons, many in one separate process. They use upstream's protocol and complete each job immediately.

import { createDrpcClient } from '@ropewalk/wire/drpc';
import { ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';

export interface DaemonsOrder {
  url: string;
  psk: string;
  /** Tags of one daemon each. */
  daemons: { name: string; tags: Record<string, string> }[];
}

/** A job that a daemon received, with the machine's clock at its receipt and after the reply to its completion, in ms. */
export interface Done {
  jobId: string;
  receivedMs: number;
  endedMs: number;
}

export type DaemonsReport = { kind: 'ready' } | { kind: 'done'; jobs: Done[] } | { kind: 'broken'; reason: string };

const CONNECTING_AT_ONCE = 32;

/** Milliseconds since 1970 with a fraction, by the clock that PostgreSQL reads too. */
export function clockMs(): number {
  return Number(Temporal.Now.instant().epochNanoseconds / 1_000n) / 1_000;
}

async function connect({ url, psk }: DaemonsOrder, name: string, tags: Record<string, string>) {
  const target = new URL(`${url}/api/v2/organizations/default/provisionerdaemons/serve`);
  target.searchParams.append('version', '1.8');
  target.searchParams.append('provisioner', 'terraform');
  target.searchParams.append('name', name);
  for (const [key, value] of Object.entries(tags)) target.searchParams.append('tag', `${key}=${value}`);
  const { connection } = await dialWebSocket(target, { headers: { 'Coder-Provisioner-Daemon-PSK': psk } });
  const session = new YamuxSession(byteStream(connection), { role: 'client' });
  void session.closed.then(({ reason }) => broken(`${name}: the session ended: ${reason}`));
  return createDrpcClient(ProvisionerDaemon, () => session.openStream());
}

type Daemon = Awaited<ReturnType<typeof connect>>;

/** Takes a job, completes it, and takes the next, forever. */
async function work(daemon: Daemon): Promise<never> {
  for (;;) {
    const call = daemon.acquireJobWithCancel();
    const job = await call.receive();
    const receivedMs = clockMs();
    call.cancel();
    if (!job?.jobId) throw new Error('the server ended the wait for a job');
    await daemon.completeJob({ jobId: job.jobId, type: { case: 'templateImport', value: {} } });
    report({ jobId: job.jobId, receivedMs, endedMs: clockMs() });
  }
}

let batch: Done[] = [];

function report(job: Done): void {
  if (batch.push(job) > 1) return;
  setImmediate(() => {
    send({ kind: 'done', jobs: batch });
    batch = [];
  });
}

function send(message: DaemonsReport): void {
  process.send!(message);
}

function broken(reason: string): never {
  if (process.connected) send({ kind: 'broken', reason });
  process.exit(1);
}

if (process.argv[1] === import.meta.filename && process.send) {
  process.on('disconnect', () => process.exit(0));
  process.on('message', async (order: DaemonsOrder) => {
    try {
      const left = [...order.daemons];
      await Promise.all(
        Array.from({ length: CONNECTING_AT_ONCE }, async () => {
          for (let next = left.pop(); next; next = left.pop()) {
            const daemon = await connect(order, next.name, next.tags);
            work(daemon).catch((err) => broken(String(err)));
          }
        }),
      );
      send({ kind: 'ready' });
    } catch (err) {
      broken(String(err));
    }
  });
}
