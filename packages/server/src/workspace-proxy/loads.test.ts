// own process: it looks at which modules its process has loaded
import assert from 'node:assert/strict';
import { registerHooks } from 'node:module';
import { test } from 'node:test';

const loaded: string[] = [];
registerHooks({
  load: (url, context, next) => {
    loaded.push(url);
    return next(url, context);
  },
});

test('a workspace proxy loads no database, no HTTP framework, no schemas and no rules about them', async () => {
  await import('./start.ts');
  const heavy =
    /\/(fastify|typebox|postgres|ajv|undici)\/|\/packages\/(contract|hcl|tailnet)\/|\/server\/src\/(db|authz|rpc|metrics)\//;
  assert.deepEqual(
    loaded.filter((url) => heavy.test(url)),
    [],
  );
  // the rules that it needs are pure
  const rules = loaded.filter((url) => url.includes('/server/src/app/')).map((url) => url.split('/server/src/app/')[1]);
  assert.deepEqual(rules.sort(), [
    'values/app-address.ts',
    'values/network.ts',
    'values/token.ts',
    'workspace-proxy/grant-token.ts',
  ]);
});
