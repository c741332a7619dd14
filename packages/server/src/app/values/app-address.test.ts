import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAppTokens } from '../context/sealed-tokens.ts';
import {
  climbs,
  isPathAppTarget,
  parseAppHost,
  parseAppPath,
  parsePort,
  parseWildcard,
  portProxyUri,
  subdomainOrigin,
  wildcardHost,
  wildcardLabel,
} from './app-address.ts';

test('parses the paths of apps', () => {
  const read = (target: string) => {
    const found = parseAppPath(target);
    return found && [found.address.user, found.address.workspace, found.address.agent, found.address.app, found.rest];
  };
  assert.deepEqual(read('/@me/dev/apps/web'), ['me', 'dev', '', 'web', '']);
  assert.deepEqual(read('/@me/dev/apps/web?a=1'), ['me', 'dev', '', 'web', '?a=1']);
  assert.deepEqual(read('/@a-b/dev.main/apps/code-server/x?y#z'), ['a-b', 'dev', 'main', 'code-server', '/x?y#z']);
  for (const wrong of [
    '/@me/dev/apps/',
    '/@me/dev/apps/web%2f',
    '/@me/dev.a.b/apps/x',
    '/@me//apps/x',
    '/@me/d/apps/a--b/',
    '/me/d/apps/x',
  ]) {
    assert.equal(read(wrong), undefined, wrong);
  }
  assert.ok(isPathAppTarget('/@me/dev.a.b/apps/x') && isPathAppTarget('/@/%2f/apps'));
  assert.ok(!isPathAppTarget('/@me/dev') && !isPathAppTarget('/@me/dev/terminal/apps') && !isPathAppTarget('/api/v2'));
  for (const target of ['/a/../b', '/..', '/a/..%2fb', '/%2e./x', '/.%2E%5cx', '/a\\..\\b'])
    assert.ok(climbs(target), target);
  for (const target of ['/a..b', '/...', '/a?x=/../', '/%2e%2e%2e/', '/a/.b']) assert.ok(!climbs(target), target);
});

test('parses the host names of apps', () => {
  const dot = parseWildcard('*.apps.example.com')!;
  const dashed = parseWildcard('https://*--Apps.example.com:8443/')!;
  const app = (wildcard: typeof dot, host: string) => {
    const found = parseAppHost(wildcard, host);
    return found && [found.app, found.agent, found.workspace, found.user, found.base];
  };
  const base = 'web--main--dev--me.apps.example.com';
  assert.deepEqual(app(dot, 'Web--Main--dev--me.APPS.example.com:3000'), ['web', 'main', 'dev', 'me', base]);
  assert.deepEqual(app(dot, `${base}.`)?.slice(0, 4), ['web', 'main', 'dev', 'me']);
  assert.deepEqual(app(dot, '8080s--dev--me.apps.example.com')?.slice(0, 4), ['8080s', '', 'dev', 'me']);
  assert.deepEqual(app(dashed, 'a-b--w--u--apps.example.com:8443')?.slice(0, 4), ['a-b', '', 'w', 'u']);
  for (const host of [
    'apps.example.com',
    'x.apps.example.com',
    'a--b.apps.example.com',
    'a--b--c--d--e.apps.example.com',
  ]) {
    assert.equal(app(dot, host), undefined, host);
  }
  assert.equal(app(dot, 'a--b--c.x.apps.example.com'), undefined, 'one label only');
  assert.equal(app(dot, 'a--b--c.apps.example.com.evil.com'), undefined);
  assert.equal(wildcardLabel(dot, 'evilapps.example.com'), undefined);
  assert.equal(wildcardLabel(dot, 'x.apps.example.com'), 'x');
  for (const bad of ['', 'apps.example.com', '*', '*.', '*x', 'http://', '*.a b', 'ftp://*.example.com', '*.*.com']) {
    assert.equal(parseWildcard(bad), undefined, bad);
  }
  assert.equal(subdomainOrigin(dot, 'https://coder.example.com', 'x'), 'https://x.apps.example.com');
  assert.equal(subdomainOrigin(dot, 'http://localhost:3000', 'x'), 'http://x.apps.example.com:3000');
  assert.equal(subdomainOrigin(dashed, 'http://localhost:3000', 'x'), 'https://x--apps.example.com:8443');
  assert.equal(wildcardHost(dashed, 'http://localhost:3000'), '*--apps.example.com:8443');
  const agent = { name: 'main', workspace_name: 'dev', owner_name: 'me' };
  const uri = (wildcardAccessUrl: string) =>
    portProxyUri({ config: { wildcardAccessUrl }, accessUrl: 'https://c.io' }, agent);
  assert.equal(uri('*.apps.c.io'), 'https://{{port}}--main--dev--me.apps.c.io');
  assert.equal(uri(''), '');
  assert.deepEqual(parsePort('8080s'), { port: 8080, https: true });
  for (const bad of ['80', '1023', '65536', '08080', '8080x', 'x', '']) assert.equal(parsePort(bad), undefined, bad);
});

test('signed and sealed values open only with the same key, unchanged, and for the same purpose', () => {
  const tokens = createAppTokens('a secret');
  const others = createAppTokens('another');
  const grant = { base: 'x', port: 1 } as never;
  const text = tokens.sign(grant);
  assert.deepEqual(tokens.read(text), grant);
  assert.equal(others.read(text), undefined);
  assert.equal(tokens.read(`${text}x`), undefined);
  assert.equal(tokens.read('x'.repeat(10_000)), undefined);
  const sealed = tokens.seal('for a', { secret: 'words' });
  assert.doesNotMatch(Buffer.from(sealed, 'base64url').toString('latin1'), /words/);
  assert.deepEqual(tokens.unseal('for a', sealed), { secret: 'words' });
  assert.equal(tokens.unseal('for b', sealed), undefined);
  assert.equal(others.unseal('for a', sealed), undefined);
  assert.equal(tokens.unseal('for a', sealed.slice(0, -2)), undefined);
  assert.equal(tokens.unseal('for a', ''), undefined);
});
