import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type {
  DynamicParametersRequest,
  DynamicParametersResponse,
  Template,
  Workspace,
  WorkspaceBuild,
  WorkspaceBuildParameter,
} from '@ropewalk/contract';
import {
  eventually,
  failTaken,
  heldUp,
  importedVersion,
  insertPerson,
  startTestServer,
  type TestServer,
  takeJob,
  uploadSource,
} from '@ropewalk/testkit';
import { dialWebSocket, type WebSocketConnection } from '@ropewalk/wire/websocket';

const SOURCE = `
data "coder_workspace_owner" "me" {}

locals {
  sizes = contains(data.coder_workspace_owner.me.groups, "builders") ? ["small", "huge"] : ["small"]
}

data "coder_parameter" "size" {
  name    = "size"
  default = "small"
  mutable = true
  dynamic "option" {
    for_each = local.sizes
    content {
      name  = option.value
      value = option.value
    }
  }
}

data "coder_parameter" "region" {
  name    = "region"
  default = "eu-\${data.coder_parameter.size.value}"
}

data "coder_parameter" "disk" {
  count     = data.coder_parameter.size.value == "huge" ? 1 : 0
  name      = "disk"
  type      = "number"
  default   = 10
  mutable   = true
  validation {
    min       = 5
    max       = 50
    monotonic = "increasing"
    error     = "Choose {min} to {max}"
  }
}

data "coder_parameter" "note" {
  name      = "note"
  default   = "none"
  mutable   = true
  ephemeral = true
}
`;

let server: TestServer;
let template: Template;
let builder: { id: string; token: string };
let member: { id: string; token: string };

/** Creates a template whose version was imported by a daemon of this API version. */
async function templateOf(source: string, name: string, apiVersion = '1.8', found = {}): Promise<Template> {
  const version = await importedVersion(server, { file_id: await uploadSource(server, source) }, found);
  await server.services.sql`UPDATE template_version_terraform_values SET provisionerd_version = ${apiVersion}
    WHERE template_version_id = ${version.id}`;
  const { status, body } = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name, template_version_id: version.id, template_use_classic_parameter_flow: false },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}

before(async () => {
  server = await startTestServer();
  template = await templateOf(SOURCE, 'dynamic');
  builder = await insertPerson(server, 'builder');
  member = await insertPerson(server, 'member');
  const made = await server.api<{ id: string }>('POST', '/organizations/default/groups', {
    body: { name: 'builders' },
  });
  await server.api('PATCH', `/groups/${made.body.id}`, { body: { add_users: [builder.id] } });
});
after(() => server.stop());

/** A form as a browser has it. */
class Form {
  readonly #socket: WebSocketConnection;
  readonly answers: DynamicParametersResponse[] = [];

  constructor(socket: WebSocketConnection) {
    this.#socket = socket;
    socket.on('text', (text) => this.answers.push(JSON.parse(text) as DynamicParametersResponse));
  }

  get closed() {
    return this.#socket.closed;
  }

  send(request: DynamicParametersRequest | string): void {
    this.#socket.sendText(typeof request === 'string' ? request : JSON.stringify(request));
  }

  async answer(id: number): Promise<DynamicParametersResponse> {
    await eventually(`an answer to ${id}`, () => this.answers.some((answer) => answer.id === id));
    return this.answers.find((answer) => answer.id === id)!;
  }

  close(): void {
    this.#socket.destroy();
  }
}

async function open(versionId: string, token: string, on = server): Promise<Form> {
  const { connection } = await dialWebSocket(`${on.url}/api/v2/templateversions/${versionId}/dynamic-parameters`, {
    headers: { 'Coder-Session-Token': token },
  });
  return new Form(connection);
}

const evaluate = (body: DynamicParametersRequest, token = server.adminToken, versionId = template.active_version_id) =>
  server.api<DynamicParametersResponse & { message: string }>(
    'POST',
    `/templateversions/${versionId}/dynamic-parameters/evaluate`,
    { body, token },
  );

const valuesOf = ({ parameters }: DynamicParametersResponse) =>
  Object.fromEntries(parameters.map(({ name, value }) => [name, value.valid ? value.value : null]));
const optionsOf = ({ parameters }: DynamicParametersResponse, name: string) =>
  parameters.find((one) => one.name === name)?.options.map(({ value }) => value.value);

describe('the form', () => {
  test('begins with the defaults and follows the values of each message', async () => {
    const form = await open(template.active_version_id, builder.token);
    assert.deepEqual(valuesOf(await form.answer(-1)), { note: 'none', region: 'eu-small', size: 'small' });
    form.send({ id: 1, inputs: { size: 'huge' } });
    const huge = await form.answer(1);
    assert.deepEqual(valuesOf(huge), { disk: '10', note: 'none', region: 'eu-huge', size: 'huge' });
    assert.deepEqual(huge.diagnostics, []);
    form.send({ id: 2, inputs: { size: 'huge', disk: '99' } });
    const wrong = (await form.answer(2)).parameters.find(({ name }) => name === 'disk')!;
    assert.deepEqual(
      wrong.diagnostics.map(({ severity, detail }) => [severity, detail]),
      [['error', 'Choose 5 to 50']],
    );
    form.close();
  });

  test('shows what the owner of the workspace may choose, for owners that the caller may see', async () => {
    assert.deepEqual(optionsOf((await evaluate({ owner_id: builder.id })).body, 'size'), ['small', 'huge']);
    assert.deepEqual(optionsOf((await evaluate({ owner_id: member.id })).body, 'size'), ['small']);
    assert.deepEqual(optionsOf((await evaluate({}, member.token)).body, 'size'), ['small']);
    const hidden = (await evaluate({ owner_id: builder.id }, member.token)).body;
    assert.deepEqual([hidden.parameters, hidden.diagnostics[0]?.extra.code], [[], 'owner_not_found']);
    const nobody = (await evaluate({ owner_id: crypto.randomUUID() })).body;
    assert.equal(nobody.diagnostics[0]?.extra.code, 'owner_not_found');
  });

  test('of a server that ends is closed instead of answered with that, so that another server can go on', async (t) => {
    const ending = await startTestServer();
    t.after(() => ending.stop());
    const version = await importedVersion(ending, { file_id: await uploadSource(ending, SOURCE) });
    await ending.services.sql`UPDATE template_version_terraform_values SET provisionerd_version = '1.8'
      WHERE template_version_id = ${version.id}`;
    const form = await open(version.id, ending.adminToken, ending);
    await form.answer(-1);
    await ending.services.work.close();
    form.send({ id: 1, inputs: { size: 'huge' } });
    let end: number | undefined;
    void form.closed.then(({ code }) => {
      end = code;
    });
    await eventually('an end or an answer', () => end !== undefined || form.answers.some(({ id }) => id === 1));
    assert.equal(end, 1012);
  });

  test('keeps the owner of an earlier message', async () => {
    const form = await open(template.active_version_id, server.adminToken);
    form.send({ id: 1, owner_id: builder.id });
    assert.deepEqual(optionsOf(await form.answer(1), 'size'), ['small', 'huge']);
    form.send({ id: 2, inputs: { size: 'huge' } });
    assert.equal(valuesOf(await form.answer(2))['disk'], '10');
    form.close();
  });

  test('answers the newest of many messages', async () => {
    const form = await open(template.active_version_id, builder.token);
    for (let id = 1; id <= 500; id++) form.send({ id, inputs: { region: `r${id}` } });
    assert.equal(valuesOf(await form.answer(500))['region'], 'r500');
    assert.ok(form.answers.length < 500, `${form.answers.length} answers`);
    form.close();
  });

  test('rejects malformed messages, and versions that the caller cannot use', async () => {
    for (const text of ['nonsense', '[]', '{"inputs": {"a": 1}}', '{"inputs": {"a": "\\u0000"}}']) {
      const form = await open(template.active_version_id, builder.token);
      form.send(text);
      assert.equal((await form.closed).code, 1008, text);
    }
    assert.equal((await evaluate({}, server.adminToken, crypto.randomUUID())).status, 404);
    const outsider = await insertPerson(server, 'outsider', [], { member: false });
    assert.equal((await evaluate({}, outsider.token)).status, 404);
  });

  test('closes when the caller may no longer use it', async () => {
    const guest = await insertPerson(server, 'guest');
    const form = await open(template.active_version_id, guest.token);
    await form.answer(-1);
    await server.api('PUT', '/users/guest/status/suspend');
    assert.equal((await form.closed).code, 1008);
  });

  test('shows the stored parameters of a version that an old daemon imported', async () => {
    const richParameters = [
      { name: 'stored', type: 'string', required: true, validationRegex: '^a', validationError: 'An a' },
    ];
    const old = await templateOf('# nothing', 'old', '1.3', { richParameters });
    const { body } = await evaluate({}, server.adminToken, old.active_version_id);
    assert.equal(body.diagnostics[0]?.severity, 'warning');
    assert.equal(body.parameters[0]?.diagnostics[0]?.extra.code, 'required');
    const wrong = await evaluate({ inputs: { stored: 'b' } }, server.adminToken, old.active_version_id);
    assert.equal(wrong.body.parameters[0]?.diagnostics[0]?.detail, 'An a');
  });
});

test('a version that mentions no parameters needs no evaluation', async () => {
  const { sql } = server.services;
  const has = async (source: string) => {
    const made = await templateOf(source, `t${crypto.randomUUID().slice(0, 8)}`);
    const [row] = await sql<{ has_parameters: boolean }[]>`
      SELECT has_parameters FROM template_version_terraform_values WHERE template_version_id = ${made.active_version_id}`;
    return { has: row!.has_parameters, ...(await evaluate({}, server.adminToken, made.active_version_id)).body };
  };
  assert.equal((await has(SOURCE)).has, true);
  const none = await has('# nothing');
  assert.deepEqual([none.has, none.parameters, none.diagnostics], [false, [], []]);
});

describe('a build', () => {
  type Answer<T> = T & { message: string; validations?: { field: string; detail: string }[] };
  const create = (name: string, values: Record<string, string>, token = builder.token) =>
    server.api<Answer<Workspace>>('POST', '/users/me/workspaces', {
      token,
      body: { name, template_id: template.id, rich_parameter_values: pairs(values) },
    });
  const pairs = (values: Record<string, string>) => Object.entries(values).map(([name, value]) => ({ name, value }));
  const build = (workspace: string, transition: string, values: Record<string, string> = {}) =>
    server.api<Answer<WorkspaceBuild>>('POST', `/workspaces/${workspace}/builds`, {
      token: builder.token,
      body: { transition, rich_parameter_values: pairs(values) },
    });
  const usedBy = async (id: string) => {
    const { body } = await server.api<WorkspaceBuildParameter[]>('GET', `/workspacebuilds/${id}/parameters`);
    return Object.fromEntries(body.map(({ name, value }) => [name, value]));
  };
  const ended = async () => failTaken(server, await takeJob(server), 'not run in this test');

  test('checks values as the form does', async () => {
    for (const [values, field] of [
      [{ size: 'giant' }, 'size'],
      [{ size: 'huge', disk: '3' }, 'disk'],
    ] as const) {
      const { status, body } = await create('rejected', values);
      assert.deepEqual([status, body.validations?.[0]?.field], [400, field], JSON.stringify(body));
    }
    assert.equal((await create('rejected', { size: 'huge' }, member.token)).status, 400);
  });

  test('stores the values that count, and compares them with the last ones', async () => {
    const { status, body: workspace } = await create('kept', { size: 'huge', disk: '20', note: 'once', absent: 'x' });
    assert.equal(status, 201, JSON.stringify(workspace));
    await ended();
    const first = await usedBy(workspace.latest_build.id);
    assert.deepEqual(first, { disk: '20', note: 'once', region: 'eu-huge', size: 'huge' });

    const smaller = await build(workspace.id, 'start', { disk: '10' });
    assert.deepEqual([smaller.status, smaller.body.validations?.[0]?.field], [400, 'disk']);
    const moved = await build(workspace.id, 'start', { region: 'us' });
    assert.match(moved.body.validations![0]!.detail, /"region" is not mutable/);

    const stopped = await build(workspace.id, 'stop');
    assert.equal(stopped.status, 201, JSON.stringify(stopped.body));
    await ended();
    const shrunk = await build(workspace.id, 'start', { size: 'small' });
    assert.equal(shrunk.status, 201, JSON.stringify(shrunk.body));
    await ended();
    // the region was stored, so that it stays although its default changed
    assert.deepEqual(await usedBy(shrunk.body.id), { note: 'none', region: 'eu-huge', size: 'small' });
  });

  test('keeps the value of a parameter that a condition hid and shows again', async () => {
    const { body: workspace } = await create('hiding', { size: 'huge', disk: '20' });
    await ended();
    const small = await build(workspace.id, 'start', { size: 'small' });
    await ended();
    assert.equal((await usedBy(small.body.id))['disk'], undefined);
    const { body: before } = await server.api<WorkspaceBuildParameter[]>(
      'GET',
      `/workspacebuilds/${small.body.id}/parameters?earlier=true`,
    );
    assert.equal(before.find(({ name }) => name === 'disk')?.value, '20', 'a form starts with it');
    const smaller = await build(workspace.id, 'start', { size: 'huge', disk: '10' });
    assert.deepEqual([smaller.status, smaller.body.validations?.[0]?.field], [400, 'disk']);
    const huge = await build(workspace.id, 'start', { size: 'huge' });
    assert.equal(huge.status, 201, JSON.stringify(huge.body));
    await ended();
    assert.equal((await usedBy(huge.body.id))['disk'], '20');
  });

  test('stops a workspace whose template can no longer be evaluated', async () => {
    const { body: workspace } = await create('stuck', {});
    await ended();
    const { sql } = server.services;
    await sql`DELETE FROM organization_members WHERE user_id = ${builder.id}`;
    const stopped = await server.api<Answer<WorkspaceBuild>>('POST', `/workspaces/${workspace.id}/builds`, {
      body: { transition: 'stop' },
    });
    assert.equal(stopped.status, 201, JSON.stringify(stopped.body));
    await ended();
    await sql`INSERT INTO organization_members (organization_id, user_id)
      SELECT id, ${builder.id} FROM organizations WHERE is_default`;
  });
});

test('a template made to take long gives an error, and the server stays responsive', { timeout: 60_000 }, async () => {
  const nested = 'flatten([for a in range(1000) : [for b in range(1000) : [for c in range(1000) : a]]])';
  const hostile = await templateOf(
    `data "coder_parameter" "p" {\n name = "p"\n default = join("", ${nested})\n}`,
    'long',
  );
  const { value, longestMs } = await heldUp(() => evaluate({}, server.adminToken, hostile.active_version_id));
  const problems = [...value.body.diagnostics, ...value.body.parameters.flatMap((one) => one.diagnostics)];
  assert.match(problems.map(({ detail }) => detail).join(), /more than 400,000 steps/);
  assert.ok(longestMs < 1_000, `${longestMs} ms`);
});
