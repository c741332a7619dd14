import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadConfig } from './load.ts';
import type { OptionRow } from './option.ts';
import { options } from './options.ts';
import { configYaml } from './yaml.ts';

test('the written file gives every option its value again, without secrets', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'platform-config-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const env = {
    CODER_ACCESS_URL: 'https://dev.example.com',
    CODER_HTTP_ADDRESS: '[::1]:3000',
    CODER_SESSION_DURATION: '36h30m',
    CODER_OIDC_SIGN_IN_TEXT: 'yes: "sign" in, #1',
    CODER_OIDC_SCOPES: 'openid, email',
    CODER_OIDC_GROUP_MAPPING: '{"a":"b: c"}',
    CODER_OIDC_CLIENT_SECRET: 'hidden-value',
    CODER_PG_CONNECTION_URL: 'postgres://u:hidden-value@db/x',
    CODER_PROVISIONER_DAEMON_PSK: 'hidden-value',
    CODER_TLS_ENABLE: 'TRUE',
    CODER_PROVISIONER_DAEMONS: '7',
    CODER_DERP_CONFIG_URL: '',
  };
  const first = loadConfig({ env });
  const text = configYaml(first.texts);
  assert.doesNotMatch(text, /hidden-value/);
  assert.match(text, /^ {2}# .*\n {2}accessURL: https:\/\/dev\.example\.com$/m);
  const yamlPath = join(dir, 'config.yaml');
  writeFileSync(yamlPath, text);
  const again = loadConfig({ env: {}, yamlPath });
  for (const [name, row] of Object.entries(options) as [keyof typeof options, OptionRow][])
    if (row.yaml !== undefined && !row.secret && row.ignored === undefined)
      assert.deepEqual(again.config[name], first.config[name], name);
  assert.equal(configYaml(again.texts), text);
});
