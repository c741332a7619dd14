import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AppearanceConfig } from '@ropewalk/contract';
import { createTestTemplate, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';

let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_DOCS_URL: 'https://docs.example.com' } });
});
after(() => server.stop());

const get = async (token?: string) =>
  (await server.api<AppearanceConfig>('GET', '/appearance', token ? { token } : {})).body;
const put = (body: unknown, token?: string) => server.api('PUT', '/appearance', { body, ...(token ? { token } : {}) });

test('stores name, logo and banners for everyone', async () => {
  const member = await insertPerson(server, 'member');
  const before = await get(member.token);
  assert.deepEqual(before.announcement_banners, []);
  assert.deepEqual(before.service_banner, { enabled: false });
  assert.equal(before.docs_url, 'https://docs.example.com');
  const banners = [
    { enabled: true, message: 'Maintenance on <b>Friday</b> 🚧', background_color: '#004852' },
    { enabled: false },
  ];
  const { status, body } = await put({
    application_name: 'Acme',
    logo_url: 'https://example.com/logo.svg',
    announcement_banners: banners,
  });
  assert.equal(status, 200, JSON.stringify(body));
  const shown = await get(member.token);
  assert.equal(shown.application_name, 'Acme');
  assert.equal(shown.logo_url, 'https://example.com/logo.svg');
  assert.deepEqual(shown.announcement_banners, banners);
  assert.deepEqual(shown.service_banner, banners[0]);
  // upstream's older clients send one banner
  assert.equal((await put({ service_banner: { enabled: true, message: 'Hello' } })).status, 200);
  assert.deepEqual((await get()).announcement_banners, [{ enabled: true, message: 'Hello' }]);
  assert.equal((await get()).application_name, '');
});

test('rejects what a page cannot show, and people who may not change it', async () => {
  const member = await insertPerson(server, 'other');
  const auditor = await insertPerson(server, 'auditor', ['auditor']);
  for (const token of [member.token, auditor.token]) {
    assert.ok([403, 404].includes((await put({ application_name: 'Mine' }, token)).status));
  }
  for (const [field, body] of [
    ['logo_url', { logo_url: 'javascript:alert(1)' }],
    ['logo_url', { logo_url: 'http://example.com/logo.png' }],
    ['logo_url', { logo_url: '//example.com/logo.png' }],
    ['application_name', { application_name: 'x'.repeat(65) }],
    [
      'announcement_banners[0].background_color',
      { announcement_banners: [{ enabled: true, background_color: 'red' }] },
    ],
    ['announcement_banners[0].message', { announcement_banners: [{ enabled: true, message: 'x'.repeat(4_097) }] }],
  ] as const) {
    const { status, body: answer } = await put(body);
    assert.equal(status, 400, JSON.stringify(body));
    assert.equal((answer as { validations: { field: string }[] }).validations[0]!.field, field);
  }
  const most = Array.from({ length: 11 }, () => ({ enabled: true, message: 'x' }));
  assert.equal((await put({ announcement_banners: most })).status, 400);
});

test('shows strangers the name and the logo only', async () => {
  const banner = { enabled: true, message: 'Internal: the VPN is down' };
  const set = { application_name: 'Acme', logo_url: '/icon/coder.svg', announcement_banners: [banner] };
  assert.equal((await put(set)).status, 200);
  for (const token of [null, 'no-such-token']) {
    const { status, body } = await server.api<AppearanceConfig>('GET', '/appearance', { token });
    assert.equal(status, 200);
    assert.equal(body.application_name, 'Acme');
    assert.equal(body.logo_url, '/icon/coder.svg');
    assert.deepEqual(
      [body.announcement_banners, body.service_banner, body.support_links],
      [[], { enabled: false }, []],
    );
  }
  assert.deepEqual((await get()).announcement_banners, [banner]);
});

test('says that there are tasks once a template has them, unless the deployment hides tasks', async () => {
  const hiding = await startTestServer({ env: { CODER_HIDE_AI_TASKS: 'true' } });
  try {
    for (const [each, visible] of [
      [server, true],
      [hiding, false],
    ] as const) {
      const shown = async () => (await each.api<AppearanceConfig>('GET', '/appearance')).body.tasks_visible;
      const template = await createTestTemplate(each, 'coding');
      assert.equal(await shown(), false);
      await each.services.sql`UPDATE template_versions SET has_ai_task = true WHERE id = ${template.active_version_id}`;
      assert.equal(await shown(), visible);
      const stranger = await each.api<AppearanceConfig>('GET', '/appearance', { token: null });
      assert.equal(stranger.body.tasks_visible, false);
    }
  } finally {
    await hiding.stop();
  }
});
