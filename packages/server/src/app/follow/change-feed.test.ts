// own process: measures its processor time

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Change, ChangeHello, Workspace } from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  finishImport,
  insertPerson,
  limitedToken,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { tokenScope } from '../../authz/scope.ts';
import { apiKeyById } from '../../db/queries/apikeys.ts';
import { userById } from '../../db/queries/users.ts';
import { type Ctx, systemContext } from '../context/context.ts';
import { actorOf } from '../context/session.ts';
import { type ChangeFeed, type ChangeFeedOptions, createChangeFeed } from './change-feed.ts';
import { follow, type NamedEvent, type Outcome } from './follow.ts';

let server: TestServer;
let templateId: string;
let ann: { id: string; token: string };
let bob: { id: string; token: string };

before(async () => {
  server = await startTestServer();
  templateId = (await createTestTemplate(server, 'base')).id;
  ann = await insertPerson(server, 'ann');
  bob = await insertPerson(server, 'bob');
});
after(() => server.stop());

/** The context of a request with this token. */
async function ctxOf(token: string): Promise<Ctx> {
  const key = (await apiKeyById(server.services.sql, token.split('-')[0]!))!;
  const actor = actorOf((await userById(server.services.sql, key.user_id))!, key, server.services.config);
  return { ...systemContext(server.services, 'test'), actor };
}

interface Following {
  received: NamedEvent[];
  changes(): Change[];
  outcome: Outcome | undefined;
  close(): void;
}

/** Follows a feed in this process. Resolves once the stream has said hello. */
async function followFeed(feed: ChangeFeed, token: string, lastEventId?: string): Promise<Following> {
  const gone = new AbortController();
  const following: Following = {
    received: [],
    changes: () =>
      following.received.filter(({ event }) => event === 'change').map(({ data }) => JSON.parse(data) as Change),
    outcome: undefined,
    close: () => gone.abort(),
  };
  const ctx = await ctxOf(token);
  void follow(ctx, feed.source(ctx, lastEventId), {
    gone: gone.signal,
    send(message) {
      following.received.push(message);
      return undefined;
    },
    end(outcome) {
      following.outcome = outcome;
    },
  });
  await eventually('hello', () => following.received[0]);
  return following;
}

/** Waits until this server has received all notifications so far. */
async function settled(): Promise<void> {
  const { events } = server.services;
  const mark = crypto.randomUUID();
  const arrived = Promise.withResolvers<void>();
  const off = events.on('agent_logs', ({ agent_id: id }) => void (id === mark && arrived.resolve()));
  events.publishSoon('agent_logs', { agent_id: mark });
  await arrived.promise;
  off();
}

type Open = (token: string, lastEventId?: string) => Promise<Following>;

/** Runs a test with a separate feed, and closes the streams that it opened. */
async function withFeed(
  run: (open: Open, feed: ChangeFeed) => Promise<void>,
  options?: ChangeFeedOptions,
): Promise<void> {
  await settled();
  const feed = createChangeFeed(server.services, options);
  const opened: Following[] = [];
  const open: Open = async (token, lastEventId) => {
    const following = await followFeed(feed, token, lastEventId);
    opened.push(following);
    return following;
  };
  try {
    await run(open, feed);
  } finally {
    for (const each of opened) each.close();
    feed.close();
  }
}

async function createWorkspace(token: string, name: string): Promise<Workspace> {
  const { status, body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    token,
    body: { name, template_id: templateId },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}

const favorite = (token: string, id: string) => server.api('PUT', `/workspaces/${id}/favorite`, { token });
const helloOf = ({ received }: Following) => JSON.parse(received[0]!.data) as ChangeHello;
const lastIdOf = ({ received }: Following) => received.at(-1)!.id;
const about = (id: string) => (change: Change) => change.id === id || change.workspace_id === id;

// before others leave jobs that wait
test('reports templates, versions, imports, members and users', async () => {
  await withFeed(async (open) => {
    const admin = await open(server.adminToken);
    const member = await open(ann.token);
    const seen = (of: Following, kind: string, id: string) =>
      eventually(`${kind} ${id}`, () => of.changes().find((each) => each.kind === kind && each.id === id), 1_000);
    const template = await createTestTemplate(server, 'fresh');
    await seen(admin, 'template', template.id);
    await seen(member, 'template', template.id);
    const version = await pendingVersion(server, { template_id: template.id });
    await seen(admin, 'template_version', version.id);
    const job = await seen(admin, 'job', version.job.id);
    assert.equal(job.template_version_id, version.id);
    const before = admin.changes().length;
    const own = await takeJob(server);
    await finishImport(server, own);
    await eventually(
      'the end of the import',
      () =>
        ['job', 'template_version'].every((kind) =>
          admin
            .changes()
            .slice(before)
            .some((each) => each.kind === kind),
        ),
      1_000,
    );
    await server.api('DELETE', '/organizations/default/members/bob');
    const gone = await seen(admin, 'organization_member', bob.id);
    assert.equal(gone.organization_id, template.organization_id);
    await server.api('POST', '/organizations/default/members/bob');
    const made = await server.api<{ id: string }>('POST', '/users', {
      body: {
        username: 'carl',
        email: 'carl@example.com',
        login_type: 'none',
        organization_ids: [template.organization_id],
      },
    });
    await seen(admin, 'user', made.body.id);
    assert.equal(JSON.stringify(member.received).includes(made.body.id), false);
    const key = await server.api('POST', '/organizations/default/provisionerkeys', { body: { name: 'k' } });
    assert.equal(key.status, 201, JSON.stringify(key.body));
    await eventually('the key', () => admin.changes().some(({ kind }) => kind === 'provisioner_key'), 1_000);
  });
});

test('resets readers who lose the permission to use a template', async () => {
  const template = await createTestTemplate(server, 'closing');
  await withFeed(async (open) => {
    const [hers, admins] = await Promise.all([open(ann.token), open(server.adminToken)]);
    const body = { disable_everyone_group_access: true };
    assert.equal((await server.api('PATCH', `/templates/${template.id}`, { body })).status, 200);
    await eventually('the reset', () => hers.received.some(({ event }) => event === 'reset'), 1_000);
    await eventually('the change', () => admins.changes().some(({ id }) => id === template.id), 1_000);
    assert.ok(!JSON.stringify(hers.received).includes(template.id));
  });
});

test('reports a change to those who may read the object, and to nobody else', async () => {
  await withFeed(async (open) => {
    const [hers, his, admins] = await Promise.all(
      [ann.token, bob.token, server.adminToken].map((token) => open(token)),
    );
    assert.deepEqual(helloOf(hers!), { version: server.services.version, resumed: false });
    const made = await createWorkspace(ann.token, 'secret');
    const at = performance.now();
    await eventually('the workspace and its job', () => hers!.changes().filter(about(made.id)).length >= 2);
    await eventually('the owner of the site sees it', () => admins!.changes().some(about(made.id)));
    assert.ok(performance.now() - at < 10_000);
    const workspace = hers!.changes().find(({ kind }) => kind === 'workspace')!;
    assert.deepEqual(workspace, {
      kind: 'workspace',
      id: made.id,
      workspace_id: made.id,
      owner_id: ann.id,
      organization_id: made.organization_id,
      template_id: templateId,
    });
    const job = hers!.changes().find(({ kind }) => kind === 'job')!;
    assert.equal(job.workspace_build_id, made.latest_build.id);
    await createWorkspace(bob.token, 'own');
    await eventually('his own', () => his!.changes().some(({ kind }) => kind === 'workspace'), 1_000);
    assert.equal(JSON.stringify(his!.received).includes(made.id), false);
    assert.equal(JSON.stringify(his!.received).includes(made.latest_build.id), false);
  });
});

test('merges changes of one object, and leaves out the growth of logs', async () => {
  const made = await createWorkspace(ann.token, 'busy');
  await withFeed(async (open) => {
    const hers = await open(ann.token);
    const { events } = server.services;
    for (let i = 0; i < 50; i++) {
      events.publishSoon('workspace_changed', { workspace_id: made.id });
      events.publishSoon('job_changed', { job_id: made.latest_build.job.id, logs: true });
    }
    await eventually('the change', () => hers.changes().length > 0, 1_000);
    assert.deepEqual(
      hers.changes().map(({ kind }) => kind),
      ['workspace'],
    );
  });
});

test('resumes after the event that the client names, without a gap', async () => {
  const made = await createWorkspace(ann.token, 'resumed');
  await withFeed(async (open) => {
    const first = await open(ann.token);
    await favorite(ann.token, made.id);
    await eventually('the first change', () => first.changes().length === 1);
    const id = lastIdOf(first);
    first.close();
    const other = await open(bob.token);
    const missed = await createWorkspace(ann.token, 'missed');
    const hidden = await createWorkspace(bob.token, 'hidden');
    await eventually('his change', () => other.changes().some(about(hidden.id)));
    other.close();
    const second = await open(ann.token, id);
    assert.deepEqual(helloOf(second), { version: server.services.version, resumed: true });
    await eventually('the missed workspace', () => second.changes().some(about(missed.id)));
    assert.ok(second.received.every(({ event }) => event !== 'reset'));
    assert.ok(!JSON.stringify(second.received).includes(hidden.id));
  });
});

test('resets a client that missed more than is kept, or names an id of another server', async () => {
  const made = await createWorkspace(ann.token, 'many');
  await withFeed(
    async (open) => {
      const first = await open(ann.token);
      const id = lastIdOf(first);
      for (let i = 0; i < 4; i++) {
        const before = first.changes().length;
        await favorite(ann.token, made.id);
        await eventually('the change', () => first.changes().length > before);
      }
      const last = lastIdOf(first);
      first.close();
      for (const old of [id, 'ffff-1', 'nonsense', `${id.split('-')[0]}-999999`, `${id.split('-')[0]}--1`]) {
        const late = await open(ann.token, old);
        assert.deepEqual(
          late.received.map(({ event }) => event),
          ['hello', 'reset'],
          old,
        );
        assert.equal(helloOf(late).resumed, false);
        assert.equal(lastIdOf(late), last);
        late.close();
      }
    },
    { mostKept: 2 },
  );
});

test('starts a new epoch when no stream was open for a while', async () => {
  const made = await createWorkspace(ann.token, 'idle');
  await withFeed(
    async (open) => {
      const first = await open(ann.token);
      const id = lastIdOf(first);
      first.close();
      let notified = false;
      const off = server.services.events.on('workspace_changed', () => {
        notified = true;
      });
      await favorite(ann.token, made.id);
      await eventually('the event', () => notified);
      off();
      const second = await open(ann.token, id);
      assert.equal(helloOf(second).resumed, false);
      second.close();
    },
    { collectMs: 0 },
  );
});

test('gives a reader with invisible changes only a new id now and then', async () => {
  await withFeed(
    async (open) => {
      const his = await open(bob.token);
      for (let i = 0; i < 3; i++) await createWorkspace(ann.token, `unseen-${i}`);
      await eventually('the new id', () => his.received.length > 1);
      assert.deepEqual(
        his.received.map(({ event }) => event),
        ['hello', 'ping'],
      );
      assert.equal(helloOf(await open(bob.token, lastIdOf(his))).resumed, true);
    },
    { mostKept: 32 },
  );
});

test('resets readers whose rights change, and shows what the new rights allow', async () => {
  await withFeed(async (open) => {
    const eve = await insertPerson(server, 'eve', ['owner']);
    const hers = await open(eve.token);
    const put = await server.api('PUT', '/users/eve/roles', { body: { roles: [] } });
    assert.equal(put.status, 200);
    await eventually('the reset', () => hers.received.some(({ event }) => event === 'reset'), 1_000);
    const made = await createWorkspace(ann.token, 'later');
    const own = await createWorkspace(eve.token, 'mine');
    await eventually('her own', () => hers.changes().some(about(own.id)), 1_000);
    assert.ok(!JSON.stringify(hers.received).includes(made.id));
  });
});

test('resets readers whose groups or custom roles change', async () => {
  const { sql, events } = server.services;
  const cat = await insertPerson(server, 'cat');
  const resets = (following: Following) => following.received.filter(({ event }) => event === 'reset').length;
  await withFeed(async (open) => {
    const hers = await open(cat.token);
    const changes = [
      () => sql`WITH made AS (INSERT INTO groups (organization_id, name) SELECT id, 'cats' FROM organizations RETURNING *)
        INSERT INTO group_members (group_id, organization_id, user_id) SELECT id, organization_id, ${cat.id} FROM made`,
      () => sql`WITH made AS (INSERT INTO custom_roles (organization_id, name, permissions)
          SELECT id, 'reader', '{"template": ["read"]}' FROM organizations RETURNING *)
        UPDATE organization_members SET roles = '{reader}' FROM made WHERE user_id = ${cat.id}`,
      () => sql`UPDATE custom_roles SET permissions = '{"template": ["read", "update"]}'`,
    ];
    for (const [at, change] of changes.entries()) {
      await change();
      await events.publish(sql, 'revoked', { user_ids: [cat.id] });
      await eventually('the reset', () => resets(hers) === at + 1, 1_000);
    }
  });
});

test('ends with its session', async () => {
  await withFeed(async (open) => {
    const dan = await insertPerson(server, 'dan');
    const his = await open(dan.token);
    assert.equal((await server.api('POST', '/users/logout', { token: dan.token })).status, 200);
    assert.equal(await eventually('the end', () => his.outcome, 5_000), 'forbidden');
  });
});

test('shows a limited token only what its scopes and its allow list contain', async () => {
  const one = await createWorkspace(ann.token, 'listed');
  const other = await createWorkspace(ann.token, 'unlisted');
  const tokens = await Promise.all(
    [
      tokenScope(['workspace:read'], [`workspace:${one.id}`]),
      tokenScope(['coder:all'], [`workspace:${one.id}`]),
      tokenScope(['workspace:read']),
      tokenScope(['template:read']),
      tokenScope(['coder:application_connect']),
    ].map((limits) => limitedToken(server, ann.id, limits)),
  );
  await withFeed(async (open) => {
    const all = await open(ann.token);
    const streams = await Promise.all(tokens.map((token) => open(token)));
    const from = lastIdOf(all);
    await favorite(ann.token, one.id);
    await favorite(ann.token, other.id);
    const made = await createWorkspace(ann.token, 'made-meanwhile');
    const { events } = server.services;
    events.publishSoon('object_changed', { kind: 'notification', id: 'to-ann', owner_id: ann.id });
    events.publishSoon('object_changed', { kind: 'template', id: templateId });
    events.publishSoon('object_changed', { kind: 'user', id: ann.id });
    events.publishSoon('object_changed', { kind: 'deployment', id: 'last' });
    const wanted = [one.id, other.id, made.id, 'to-ann', templateId, ann.id, 'last'];
    const shown = async (of: Following) => {
      await eventually('the last change', () => of.changes().some(({ id }) => id === 'last'), 5_000);
      const ids = new Set(of.changes().map(({ id }) => id));
      return wanted.filter((id) => ids.has(id));
    };
    assert.deepEqual(await shown(all), wanted);
    // also when they continue where a session was
    const resumed = await Promise.all(tokens.map((token) => open(token, from)));
    for (const reading of [streams, resumed]) {
      const [listed, listedOnly, reads, templates, apps] = reading;
      assert.deepEqual(await shown(listed!), [one.id, ann.id, 'last']);
      assert.deepEqual(await shown(listedOnly!), [one.id, ann.id, 'last']);
      assert.deepEqual(await shown(reads!), [one.id, other.id, made.id, ann.id, 'last']);
      assert.deepEqual(await shown(templates!), [templateId, ann.id, 'last']);
      assert.deepEqual(await shown(apps!), ['last']);
      for (const stream of [listed, listedOnly, templates, apps]) {
        const text = JSON.stringify(stream!.received);
        for (const { id, latest_build: build } of [other, made])
          assert.ok(![id, build.id, build.job.id].some((each) => text.includes(each)), text);
      }
    }
  });
});

test('shows a limited token a shared workspace until it is taken back', async () => {
  const made = await createWorkspace(ann.token, 'lent');
  const share = async (role: string) => {
    const body = { user_roles: { [bob.id]: role } };
    const { status } = await server.api('PATCH', `/workspaces/${made.id}/acl`, { token: ann.token, body });
    assert.equal(status, 204);
  };
  await share('use');
  const listed = await limitedToken(server, bob.id, tokenScope(['coder:all'], [`workspace:${made.id}`]));
  const unlisted = await limitedToken(
    server,
    bob.id,
    tokenScope(['coder:all'], [`workspace:${crypto.randomUUID()}`, 'template:*']),
  );
  await withFeed(async (open) => {
    const [his, none] = await Promise.all([open(listed), open(unlisted)]);
    await favorite(ann.token, made.id);
    await eventually('the change', () => his.changes().some(about(made.id)), 5_000);
    await share('');
    await eventually('the reset', () => his.received.some(({ event }) => event === 'reset'), 5_000);
    const before = his.changes().length;
    await favorite(ann.token, made.id);
    server.services.events.publishSoon('object_changed', { kind: 'deployment', id: 'after' });
    await eventually(
      'both are current',
      () => [his, none].every((each) => each.changes().at(-1)?.id === 'after'),
      5_000,
    );
    assert.equal(his.changes().slice(before).some(about(made.id)), false);
    assert.equal(JSON.stringify(none.received).includes(made.id), false);
  });
});

test('rejects the eleventh stream of a session', async () => {
  await withFeed(async (open, feed) => {
    const streams = await Promise.all(Array.from({ length: 10 }, () => open(ann.token)));
    const ctx = await ctxOf(ann.token);
    assert.throws(() => feed.source(ctx, undefined), { code: 'rate_limited' });
    streams[0]!.close();
    await eventually('a place', () => {
      try {
        return feed.source(ctx, undefined);
      } catch {
        return undefined;
      }
    });
  });
});

test('serves 500 streams with little work', { timeout: 60_000 }, async () => {
  const people = await Promise.all(Array.from({ length: 50 }, (_, i) => insertPerson(server, `p${i}`)));
  const made = await createWorkspace(ann.token, 'watched');
  await withFeed(async (open) => {
    const streams = await Promise.all(people.flatMap(({ token }) => Array.from({ length: 10 }, () => open(token))));
    const hers = await open(ann.token);
    const { events } = server.services;
    const cpu = process.cpuUsage();
    for (let round = 0; round < 10; round++) {
      const before = hers.changes().length;
      const at = performance.now();
      events.publishSoon('workspace_changed', { workspace_id: made.id });
      events.publishSoon('object_changed', { kind: 'deployment', id: 'appearance' });
      await eventually('the owner sees it', () => hers.changes().length >= before + 2);
      const count = hers.changes().filter(({ kind }) => kind === 'deployment').length;
      await eventually('everyone sees the deployment', () => streams.every((each) => each.changes().length === count));
      assert.ok(performance.now() - at < 10_000, `${performance.now() - at} ms`);
    }
    const { user, system } = process.cpuUsage(cpu);
    assert.ok((user + system) / 1e6 < 5, `${(user + system) / 1e6} s of CPU`);
    assert.ok(streams.every(({ received }) => !JSON.stringify(received).includes(made.id)));
  });
});
