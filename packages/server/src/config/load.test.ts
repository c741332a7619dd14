import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { loadConfig } from './load.ts';
import type { OptionRow } from './option.ts';
import { options } from './options.ts';

const dir = mkdtempSync(join(tmpdir(), 'platform-config-'));
after(() => rmSync(dir, { recursive: true }));
const load = (yaml: string) => {
  const yamlPath = join(dir, 'server.yaml');
  writeFileSync(yamlPath, yaml);
  return loadConfig({ env: {}, yamlPath });
};

test('reads options and groups from the YAML file', () => {
  const { config, sources } = load(`
networking:
  accessURL: https://dev.example.com
  http:
    httpAddress: 127.0.0.1:4000
  tls:
supportLinks:
  - name: Help
    target: https://example.com
    icon: bug
experiments: [a, b]
`);
  assert.deepEqual([config.accessUrl, config.httpAddress], ['https://dev.example.com', '127.0.0.1:4000']);
  assert.deepEqual(config.experiments, ['a', 'b']);
  assert.equal(sources.accessUrl, 'yaml');
  load('');
  load('# nothing');
});

test('accepts the address of a pod in a URL as Kubernetes writes it there', () => {
  const relayUrl = (url: string) => loadConfig({ env: { CODER_DERP_SERVER_RELAY_URL: url } }).config.derpServerRelayUrl;
  assert.equal(relayUrl('http://10.0.0.5:8080'), 'http://10.0.0.5:8080');
  assert.equal(relayUrl('http://fd00:10:244::5:8080'), 'http://[fd00:10:244::5]:8080');
  assert.equal(relayUrl('http://[fd00:10:244::5]:8080'), 'http://[fd00:10:244::5]:8080');
  assert.throws(() => relayUrl('http://fd00:10:8080'), /is not a URL/);
});

test('accepts every option in the file, and the keys that upstream programs write there', () => {
  const tree: Record<string, unknown> = {};
  const put = (path: string) => {
    const keys = path.split('.');
    const last = keys.pop()!;
    let node = tree;
    for (const key of keys) {
      node[key] ??= {};
      node = node[key] as Record<string, unknown>;
    }
    node[last] = null;
  };
  for (const row of Object.values(options) as OptionRow[]) if (row.yaml) put(row.yaml);
  for (const path of ['externalAuthProviders', 'networking.derp.regionID', 'oidc.organizationMapping']) put(path);
  load(JSON.stringify(tree));
});

test('rejects an unknown key with its path', () => {
  const rejected = (yaml: string, ...paths: string[]) => {
    assert.throws(
      () => load(yaml),
      (err: Error) => {
        for (const path of paths) assert.ok(err.message.includes(`"${path}"`), err.message);
        return /server\.yaml: unknown option or group.*\.$/.test(err.message);
      },
    );
  };
  rejected('networking: {htpp: {httpAddress: 127.0.0.1:4000}}', 'networking.htpp');
  rejected('networking: {http: {browserOnly: true}}', 'networking.http.browserOnly');
  rejected('accessURL: https://dev.example.com\nbrowserOnly: true', 'accessURL', 'browserOnly');
  rejected('constructor: 1', 'constructor');
  assert.throws(() => load('networking: true'), /"networking" is a group of options/);
  assert.throws(() => load('- a'), /server\.yaml: .*options/);
  assert.throws(() => load('just words'), /server\.yaml: .*options/);
});
