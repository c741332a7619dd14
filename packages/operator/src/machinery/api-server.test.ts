import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit/wait';
import { isConflict, isNotFound, type KubeClient } from '../kube/client.ts';
import { CONFIG_MAPS, EVENTS, type KubeObject, LEASES } from '../kube/types.ts';
import { type Cluster, needsKubernetes, startCluster } from '../testing/cluster.ts';
import { applyChanges, type NameTaken, ownedBy } from './apply.ts';
import { createReporter } from './events.ts';
import { hasFinalizer, setFinalizer } from './finalizers.ts';
import { type Informer, startInformer } from './informer.ts';
import { electLeader, type LeaderElection } from './leader.ts';

interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

let cluster: Cluster;
let namespace: string;
before(async () => {
  if (needsKubernetes.skip) return;
  cluster = await startCluster();
  namespace = await cluster.namespace();
});
after(() => cluster?.stop());

const map = (name: string, data: Record<string, string>): ConfigMap => ({ metadata: { namespace, name }, data });

function informerOf(client: KubeClient, changes: string[]): Informer<ConfigMap> {
  return startInformer<ConfigMap>({
    client,
    resource: CONFIG_MAPS,
    scope: { namespace },
    log: silentLogger,
    onChange: (now, old) => {
      if ((now ?? old)!.metadata.name.startsWith('kube-')) return;
      changes.push(`${(now ?? old)!.metadata.name} ${old?.data?.['a'] ?? '-'} → ${now?.data?.['a'] ?? '-'}`);
    },
  });
}

test('an informer follows changes and survives a restart of the API server', needsKubernetes, async () => {
  const { client } = cluster;
  await client.create(CONFIG_MAPS, map('early', { a: '1' }));
  const changes: string[] = [];
  const informer = informerOf(client, changes);
  await informer.synced;
  assert.equal(informer.get(namespace, 'early')?.data?.['a'], '1');
  await client.create(CONFIG_MAPS, map('late', { a: '1' }));
  await client.apply(CONFIG_MAPS, map('late', { a: '2' }));
  await client.delete(CONFIG_MAPS, namespace, 'early');
  await eventually('the changes', () => changes.length === 4);
  assert.deepEqual(changes, ['early - → 1', 'late - → 1', 'late 1 → 2', 'early 1 → -']);

  await cluster.restartApiServer();
  await client.apply(CONFIG_MAPS, map('late', { a: '3' }));
  await eventually('the change after the restart', () => changes.length === 5);
  assert.deepEqual(changes.slice(4), ['late 2 → 3']);
  await informer.stop();
  await client.delete(CONFIG_MAPS, namespace, 'late');
});

test('an informer lists again when its version has expired', needsKubernetes, async () => {
  const { client } = cluster;
  const changes: string[] = [];
  let lists = 0;
  let expired = false;
  const old: KubeClient = {
    ...client,
    list: (...args) => {
      lists++;
      return client.list(...args);
    },
    // revision 1 is from before the API server's memory of changes
    watch: (resource, scope, version, signal) => {
      const stale = !expired;
      expired = true;
      return client.watch(resource, scope, stale ? '1' : version, signal);
    },
  };
  await client.create(CONFIG_MAPS, map('expired', { a: '1' }));
  const informer = informerOf(old, changes);
  await eventually('the second list', () => lists === 2);
  await client.apply(CONFIG_MAPS, map('expired', { a: '2' }));
  await eventually('the change', () => changes.length === 2);
  assert.deepEqual(changes, ['expired - → 1', 'expired 1 → 2'], 'the second list reports nothing twice');
  await informer.stop();
});

test('an apply writes only differences and reverts the changes of others', needsKubernetes, async () => {
  const { client } = cluster;
  const first = await applyChanges(client, CONFIG_MAPS, map('applied', { a: '1', b: '2' }), undefined);
  const before = client.requests;
  assert.equal(await applyChanges(client, CONFIG_MAPS, map('applied', { a: '1', b: '2' }), first), first);
  assert.equal(client.requests, before, 'no request without a difference');

  const other = await client.merge<ConfigMap>(
    CONFIG_MAPS,
    { namespace, name: 'applied' },
    { data: { a: 'x', c: '3' } },
  );
  const back = await applyChanges(client, CONFIG_MAPS, map('applied', { a: '1', b: '2' }), other);
  assert.deepEqual(back.data, { a: '1', b: '2', c: '3' });
  const less = await applyChanges(client, CONFIG_MAPS, map('applied', { a: '1' }), back);
  assert.deepEqual(less.data, { a: '1', c: '3' }, 'a field that is no longer applied is removed');
});

test('an apply leaves an object of something else alone, unless both have one owner', needsKubernetes, async () => {
  const { client } = cluster;
  const made = await client.create(CONFIG_MAPS, map('foreign', { a: 'theirs' }));
  const ours = map('foreign', { a: 'ours' });
  // a tool with its own name
  const manager = made.metadata as { managedFields?: { manager: string }[] };
  await client.merge(
    CONFIG_MAPS,
    { namespace, name: 'foreign' },
    { metadata: { managedFields: manager.managedFields!.map((each) => ({ ...each, manager: 'helm' })) } },
  );
  await assert.rejects(applyChanges(client, CONFIG_MAPS, ours, undefined), (err: NameTaken) => {
    assert.equal(err.reason, 'NameTaken');
    assert.match(
      err.message,
      /^The ConfigMap "foreign" in the namespace "[^"]+" exists already, and "helm" manages it\. /,
    );
    return true;
  });
  assert.equal((await client.get<ConfigMap>(CONFIG_MAPS, namespace, 'foreign')).data?.['a'], 'theirs');
  const owner = await client.create(CONFIG_MAPS, map('owner', {}));
  const ownerReferences = [ownedBy(CONFIG_MAPS, owner)];
  await client.merge(CONFIG_MAPS, { namespace, name: 'foreign' }, { metadata: { ownerReferences } });
  const owned = { ...ours, metadata: { ...ours.metadata, ownerReferences } };
  assert.equal((await applyChanges(client, CONFIG_MAPS, owned, undefined)).data?.['a'], 'ours');
});

test('a finalizer holds an object, and a stale writer gets a conflict', needsKubernetes, async () => {
  const { client } = cluster;
  const made = await client.create(CONFIG_MAPS, map('held', {}));
  const held = await setFinalizer(client, CONFIG_MAPS, made, 'coder.com/test', true);
  assert.ok(hasFinalizer(held, 'coder.com/test'));
  await assert.rejects(setFinalizer(client, CONFIG_MAPS, made, 'coder.com/test', false), isConflict);
  await client.delete(CONFIG_MAPS, namespace, 'held');
  const dying = await client.get<ConfigMap>(CONFIG_MAPS, namespace, 'held');
  assert.ok(dying.metadata.deletionTimestamp);
  await setFinalizer(client, CONFIG_MAPS, dying, 'coder.com/test', false);
  await assert.rejects(client.get(CONFIG_MAPS, namespace, 'held'), isNotFound);
});

test('a repeated event becomes a count', needsKubernetes, async () => {
  const { client } = cluster;
  const object = await client.create(CONFIG_MAPS, map('eventful', {}));
  let at = 0;
  const report = createReporter(client, silentLogger, {
    now: () => new Date(Date.UTC(2030, 0, 1) + at),
    monotonic: () => at,
    sleep: async () => {},
  });
  for (const ms of [0, 1_000, 2_000, 70_000]) {
    at = ms;
    await report(CONFIG_MAPS, object, 'Warning', 'Failed', 'it failed');
  }
  await report(CONFIG_MAPS, object, 'Normal', 'Created', 'it is there');
  const { items } = await client.list<KubeObject & { reason: string; count: number }>(EVENTS, { namespace });
  const found = items.map(({ reason, count }) => `${reason} ${count}`).sort();
  assert.deepEqual(found, ['Created 1', 'Failed 4']);
});

test('of two operators one leads, and the other takes over', needsKubernetes, async () => {
  const { client } = cluster;
  const log: string[] = [];
  /** The candidates' clocks, in ms, which the test moves. */
  let now = 0;
  const clock = { now: () => new Date(), monotonic: () => now, sleep: async () => {} };
  const candidate = (identity: string, through: KubeClient = client): LeaderElection =>
    electLeader({
      client: through,
      namespace,
      name: 'operator',
      identity,
      log: silentLogger,
      clock,
      leaseMs: 15_000,
      retryMs: 20,
      onElected: () => log.push(`${identity} elected`),
      onLost: () => log.push(`${identity} lost`),
    });
  let cut = false;
  const failing = async () => {
    throw new Error('the network is down');
  };
  const a = candidate('a', {
    ...client,
    get: (...args) => (cut ? failing() : client.get(...args)),
  });
  await eventually('a leads', () => log.includes('a elected'));
  const b = candidate('b');
  cut = true;
  await eventually('b has seen the lease', async () => client.requests > 5);
  const lease = () => client.get<KubeObject & { spec: { holderIdentity: string } }>(LEASES, namespace, 'operator');
  assert.equal((await lease()).spec.holderIdentity, 'a', 'a lease lasts, although its holder is silent');
  now += 14_990;
  await eventually('a stops its work', () => log.includes('a lost'));
  assert.ok(!log.includes('b elected'), 'two never lead at the same time');
  await eventually('b leads', () => {
    now += 100;
    return log.includes('b elected');
  });
  await b.stop();
  assert.equal((await lease()).spec.holderIdentity, '', 'a stop releases the lease');
  await a.stop();
});
