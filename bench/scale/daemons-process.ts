// Scripted daemons, many in one separate process. They use upstream's protocol. They complete an import immediately, and
// a build after a while, with a recorded state.

import { createDrpcClient } from '@ropewalk/wire/drpc';
import { WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { type AcquiredJob, ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';

export interface DaemonsOrder {
  url: string;
  psk: string;
  /** Tags of one daemon each. */
  daemons: { name: string; tags: Record<string, string> }[];
  /** How long a build takes, in ms. Default: builds end immediately. */
  buildMs?: number;
  /** Whether daemons whose connection ended connect again. Their job is lost then, as if they had crashed. */
  again?: boolean;
}

/** A job that a daemon received, with the machine's clock at its receipt and after the reply to its completion, in ms. */
export interface Done {
  jobId: string;
  receivedMs: number;
  endedMs: number;
}

export type DaemonsReport = { kind: 'ready' } | { kind: 'done'; jobs: Done[] } | { kind: 'broken'; reason: string };

const CONNECTING_AT_ONCE = 32;
/** A build reports its progress this often, as upstream's daemons do. */
const PROGRESS_MS = 5_000;
const LINES = 3;
const RETRY_MS = 1_000;
/** About as large as the state of a virtual machine with a disk and a network. */
const STATE_BYTES = 8_192;

/** Milliseconds since 1970 with a fraction, by the clock that PostgreSQL reads too. */
export function clockMs(): number {
  return Number(Temporal.Now.instant().epochNanoseconds / 1_000n) / 1_000;
}

async function connect({ url, psk }: DaemonsOrder, { name, tags }: DaemonsOrder['daemons'][number]) {
  const target = new URL(`${url}/api/v2/organizations/default/provisionerdaemons/serve`);
  target.searchParams.append('version', '1.8');
  target.searchParams.append('provisioner', 'terraform');
  target.searchParams.append('name', name);
  for (const [key, value] of Object.entries(tags)) target.searchParams.append('tag', `${key}=${value}`);
  const { connection } = await dialWebSocket(target, { headers: { 'Coder-Provisioner-Daemon-PSK': psk } });
  const session = new YamuxSession(byteStream(connection), { role: 'client' });
  const ended = session.closed.then(({ reason }): never => {
    throw new Error(`${name}: the session ended: ${reason}`);
  });
  // `work` waits for it
  ended.catch(() => {});
  return { rpc: createDrpcClient(ProvisionerDaemon, () => session.openStream()), session, ended };
}

type Connected = Awaited<ReturnType<typeof connect>>;
type Daemon = Connected['rpc'];

/** Works on one connection after another, if the order says so. */
async function insist(order: DaemonsOrder, daemon: DaemonsOrder['daemons'][number], first: Connected): Promise<never> {
  for (let connected: Connected | undefined = first; ; ) {
    try {
      connected ??= await connect(order, daemon);
      await Promise.race([work(connected.rpc, order.buildMs ?? 0), connected.ended]);
    } catch (err) {
      void connected?.session.close();
      connected = undefined;
      if (!order.again) throw err;
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
}

/** Takes a job, completes it, and takes the next, forever. */
async function work(daemon: Daemon, buildMs: number): Promise<never> {
  for (;;) {
    const call = daemon.acquireJobWithCancel();
    const job = await call.receive();
    const receivedMs = clockMs();
    call.cancel();
    if (!job?.jobId) throw new Error('the server ended the wait for a job');
    const { jobId, type } = job;
    if (type.case === 'workspaceBuild') await build(daemon, jobId, type.value, buildMs);
    else await daemon.completeJob({ jobId, type: { case: 'templateImport', value: {} } });
    report({ jobId, receivedMs, endedMs: clockMs() });
  }
}

type BuildOrder = Extract<AcquiredJob['type'], { case: 'workspaceBuild' }>['value'];

/** Plays Terraform: reports the lines of a log while the build lasts, and its resources at the end. */
async function build(daemon: Daemon, jobId: string, { metadata }: BuildOrder, buildMs: number): Promise<void> {
  const until = performance.now() + buildMs;
  for (;;) {
    const createdAt = BigInt(Date.now());
    const logs = Array.from({ length: LINES }, (_, i) => ({
      source: 1,
      level: 3,
      createdAt,
      stage: 'Starting workspace',
      output: `terraform_data.machine: still creating, line ${i}`,
    }));
    await daemon.updateJob({ jobId, logs });
    const left = until - performance.now();
    if (left <= 0) break;
    await new Promise((done) => setTimeout(done, Math.min(left, PROGRESS_MS)));
  }
  const quota = await daemon.commitQuota({ jobId, dailyCost: 1 });
  if (!quota.ok) throw new Error('the quota rejects a build');
  const starts = metadata?.workspaceTransition === WorkspaceTransition.START;
  const agent = {
    id: crypto.randomUUID(),
    name: 'main',
    operatingSystem: 'linux',
    architecture: 'amd64',
    auth: { case: 'token' as const, value: crypto.randomUUID() },
  };
  await daemon.completeJob({
    jobId,
    type: {
      case: 'workspaceBuild',
      value: {
        state: recordedState(),
        resources: [{ name: 'machine', type: 'vm', agents: starts ? [agent] : [] }],
      },
    },
  });
}

/** What Terraform would leave: its form matters to nobody but Terraform. */
function recordedState(): Uint8Array {
  const resources = [{ mode: 'managed', type: 'vm', name: 'machine', instances: [{ attributes: {} }] }];
  const state = { version: 4, terraform_version: '1.11.4', serial: 1, lineage: crypto.randomUUID(), resources };
  return Buffer.from(JSON.stringify({ ...state, note: 'x'.repeat(STATE_BYTES) }));
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
            const connected = await connect(order, next);
            insist(order, next, connected).catch((err) => broken(String(err)));
          }
        }),
      );
      send({ kind: 'ready' });
    } catch (err) {
      broken(String(err));
    }
  });
}
