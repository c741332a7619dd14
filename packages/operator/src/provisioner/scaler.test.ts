import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Client, credentials, type ServiceError, type StatusObject, status } from '@grpc/grpc-js';
import { loadSync, type MethodDefinition } from '@grpc/proto-loader';
import { silentLogger } from '@ropewalk/kit';
import { pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { freePorts } from '@ropewalk/testkit/ports';
import { eventually } from '@ropewalk/testkit/wait';
import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { type Operator, startOperator } from '../operator.ts';
import { type Cluster, installOperator, needsKubernetes, startCluster, storeSecret } from '../testing/cluster.ts';

// KEDA's protocol, spoken by gRPC's own library
const proto = join(import.meta.dirname, '../../../wire/proto/externalscaler.proto');
const service = loadSync(proto, { longs: Number, defaults: true })['externalscaler.ExternalScaler'] as Record<
  string,
  MethodDefinition<object, object>
>;

let cluster: Cluster;
let server: TestServer | undefined;
let operator: Operator | undefined;
let client: Client;
let address: string;
let namespace: string;
before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, server] = await Promise.all([startCluster(), startTestServer()]);
  await installOperator(cluster);
  namespace = await cluster.namespace();
  const [port] = await freePorts(1);
  operator = startOperator({
    connection: cluster.connection,
    pollMs: 50,
    log: silentLogger,
    scalerAt: { host: '127.0.0.1', port: port! },
  });
  address = `127.0.0.1:${port}`;
  client = new Client(address, credentials.createInsecure());
  await storeSecret(cluster, namespace, 'token', { token: server.adminToken });
});
after(async () => {
  client?.close();
  await operator?.stop();
  await server?.stop();
  await cluster?.stop();
});

function call<Answer>(method: string, request: object): Promise<Answer> {
  const { path, requestSerialize, responseDeserialize } = service[method]!;
  return new Promise((resolve, reject) =>
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, (err, answer) =>
      err ? reject(err) : resolve(answer as Answer),
    ),
  );
}

/** Opens a stream as KEDA does for a trigger of the type external-push. */
function follow(provisioner: string) {
  const { path, requestSerialize, responseDeserialize } = service['StreamIsActive']!;
  const stream = client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, trigger(provisioner));
  const answers: boolean[] = [];
  const ended = new Promise<StatusObject>((resolve) => stream.on('status', resolve));
  const answered = new Promise<true>((resolve) => stream.once('data', () => resolve(true)));
  stream.on('data', ({ result }: { result: boolean }) => answers.push(result));
  stream.on('error', () => {});
  return {
    answers,
    answered,
    ended,
    cancel: () => stream.cancel(),
    says: (...expected: boolean[]) =>
      eventually(`the stream says ${expected}`, () => isDeepStrictEqual(answers, expected)).catch((err: Error) => {
        throw new Error(`${err.message}: it said ${answers}`);
      }),
  };
}

/** Opens a stream when there is room for it, and waits for its first answer. */
const opened = (provisioner: string) =>
  eventually('a stream is open', async () => {
    const stream = follow(provisioner);
    return (await Promise.race([stream.ended, stream.answered])) === true ? stream : undefined;
  });

const trigger = (provisioner: string) => ({ name: 'scaled', namespace, scalerMetadata: { provisioner } });

const create = (name: string, spec: object) =>
  cluster.client.create(PROVISIONERS, {
    metadata: { namespace, name },
    spec: { url: server!.url, image: 'i', bootstrap: { credentialsSecretRef: { name: 'token' } }, ...spec },
  } as unknown as Provisioner);

test("KEDA's client reads how many daemons are needed", needsKubernetes, async () => {
  await create('large', { replicas: 0, tags: { size: 'large' } });
  const active = () => call<{ result: boolean }>('IsActive', trigger('large')).then(({ result }) => result);
  await eventually('the scaler answers', () =>
    active().then(
      (result) => !result,
      () => false,
    ),
  );
  await pendingVersion(server!, { tags: { size: 'small' } });
  await pendingVersion(server!, { tags: { size: 'large' } });
  await pendingVersion(server!, { tags: { size: 'large' } });
  await eventually('it is active', active);
  assert.deepEqual(await call('GetMetricSpec', trigger('large')), {
    metricSpecs: [{ metricName: 'daemons', targetSize: 1, targetSizeFloat: 1 }],
  });
  const count = { scaledObjectRef: trigger('large'), metricName: 'daemons' };
  await eventually('both jobs count', async () => {
    const { metricValues } = await call<{ metricValues: object[] }>('GetMetrics', count);
    assert.equal(metricValues.length, 1);
    return (metricValues[0] as { metricValue: number }).metricValue === 2;
  });
});

const REJECTED: [what: string, ref: () => object, code: number, message: RegExp][] = [
  ['a provisioner that does not exist', () => trigger('none'), status.NOT_FOUND, /no CoderProvisioner "none"/],
  ['no provisioner', () => ({ ...trigger(''), scalerMetadata: {} }), status.FAILED_PRECONDITION, /Set provisioner/],
  ['a provisioner that scales itself', () => trigger('own'), status.FAILED_PRECONDITION, /scales itself/],
];
for (const [what, ref, code, message] of REJECTED) {
  test(`rejects ${what}`, needsKubernetes, async () => {
    if (what.endsWith('itself')) await create('own', { autoscaling: { maxReplicas: 3 } });
    await eventually('the answer', () =>
      call('IsActive', ref()).then(
        () => assert.fail('it answers'),
        (err: ServiceError) => err.code === code && message.test(err.details),
      ),
    );
  });
}

/** Runs KEDA's own client: see scripts/keda-client. */
const keda = (...args: string[]): ChildProcess =>
  spawn(join(process.env['KUBERNETES']!, 'keda-client'), [address, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });

/** The lines that it prints until it ends. */
async function kedaSays(method: string): Promise<object[]> {
  const child = keda(method, namespace, 'provisioner=large');
  const [printed, [code]] = await Promise.all([text(child.stdout!), once(child, 'exit')]);
  assert.equal(code, 0);
  return printed
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
}

test("KEDA's own client in Go reads the same", needsKubernetes, async () => {
  assert.deepEqual(await kedaSays('IsActive'), [{ result: true }]);
  assert.deepEqual(await kedaSays('GetMetricSpec'), [
    { metricSpecs: [{ metricName: 'daemons', targetSize: '1', targetSizeFloat: 1 }] },
  ]);
  assert.deepEqual(await kedaSays('GetMetrics'), [
    { metricValues: [{ metricName: 'daemons', metricValue: '2', metricValueFloat: 2 }] },
  ]);
  const stream = keda('StreamIsActive', namespace, 'provisioner=large');
  const [first] = (await once(stream.stdout!, 'data')) as [Buffer];
  assert.deepEqual(JSON.parse(first.toString()), { result: true });
  stream.kill();
  await once(stream, 'exit');
});

test('KEDA may set the number of daemons', needsKubernetes, async () => {
  await cluster.client.merge(PROVISIONERS, { namespace, name: 'large' }, { spec: { replicas: 2 } }, 'scale');
  await eventually('it is set', async () => {
    const { spec, status: found } = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, 'large');
    return spec.replicas === 2 && found?.conditions?.some(({ reason }) => reason === 'WaitingForDaemons');
  });
});

test(
  'a stream says when the first job comes, when none is left and when the provisioner is gone',
  needsKubernetes,
  async () => {
    await create('pushed', { replicas: 0, tags: { size: 'pushed' } });
    await eventually('the scaler answers', () =>
      call('IsActive', trigger('pushed')).then(
        () => true,
        () => false,
      ),
    );
    const { answers, ended, says } = follow('pushed');
    await says(false);
    const jobs = [
      await pendingVersion(server!, { tags: { size: 'pushed' } }),
      await pendingVersion(server!, { tags: { size: 'pushed' } }),
    ];
    await says(false, true);
    for (const { id } of jobs) await server!.api('PATCH', `/templateversions/${id}/cancel`);
    await says(false, true, false);
    await cluster.client.delete(PROVISIONERS, namespace, 'pushed');
    assert.equal((await ended).code, status.NOT_FOUND);
    assert.equal(answers.length, 3);
  },
);

test('a stream of a wrong trigger ends with the reason', needsKubernetes, async () => {
  const { code, details } = await follow('none').ended;
  assert.equal(code, status.NOT_FOUND);
  assert.match(details, /no CoderProvisioner "none"/);
});

test('1,000 streams may be open, and one that a client ends makes room', needsKubernetes, async () => {
  const streams = Array.from({ length: 1_000 }, () => follow('large'));
  await eventually('each has an answer', () => streams.every(({ answers }) => answers.length === 1), 30_000);
  const { code, details } = await follow('large').ended;
  assert.equal(code, status.RESOURCE_EXHAUSTED);
  assert.match(details, /at most 1000 streams/);
  streams[0]!.cancel();
  (await opened('large')).cancel();
  for (const { cancel } of streams) cancel();
});

test(
  'a stream survives an outage of the server, and ends without an error when the operator stops',
  needsKubernetes,
  async () => {
    const { answers, ended } = await opened('large');
    await server!.stop();
    server = undefined;
    await eventually('the server is away', () =>
      call('IsActive', trigger('large')).then(
        () => false,
        ({ code }: ServiceError) => code === status.UNAVAILABLE,
      ),
    );
    assert.deepEqual(answers, [true]);
    await operator!.stop();
    operator = undefined;
    assert.equal((await ended).code, status.OK);
  },
);
