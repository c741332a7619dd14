import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openApiDocument } from '@ropewalk/contract';
import { type ApiDocument, curlOf, exampleOf, fillIn, operationsOf, searchOperations, typeText } from './document.ts';

const document = openApiDocument('v1') as unknown as ApiDocument;
const operations = operationsOf(document);
const operation = (method: string, path: string) =>
  operations.find((each) => each.method === method && each.path === path)!;

test('reads every operation of the real document', () => {
  assert.ok(operations.length > 150);
  const users = operation('GET', '/users');
  assert.deepEqual(
    users.parameters.map(({ name }) => name),
    ['q', 'after_id', 'limit', 'offset'],
  );
  assert.equal(users.needsSession, true);
  assert.equal(operation('POST', '/users/login').needsSession, false);
  assert.equal(operation('POST', '/workspaceproxies/me/register').needsSession, false);
  assert.equal(operation('GET', '/organizations/{organization}/provisionerdaemons/serve').isStream, true);
});

test('makes an example of every shape', () => {
  for (const { body, answers } of operations) {
    for (const schema of [body?.schema, ...answers.map((each) => each.schema)]) {
      if (schema) assert.doesNotThrow(() => JSON.stringify(exampleOf(document, schema)));
    }
  }
  const { body } = operation('POST', '/users/login');
  assert.deepEqual(exampleOf(document, body!.schema), { email: 'string', password: 'string' });
});

test('names types', () => {
  const { answers } = operation('GET', '/organizations');
  assert.equal(typeText(document, answers[0]!.schema!), 'Organization[]');
});

test('finds operations by words', () => {
  const found = searchOperations(operations, 'put quiet');
  assert.deepEqual(
    found.map(({ path }) => path),
    ['/users/{user}/quiet-hours'],
  );
});

test('fills in path and query, and quotes for the shell', () => {
  const get = operation('GET', '/organizations/{organization}/provisionerjobs');
  const path = fillIn(get, { organization: 'a/b', status: 'pending', limit: '' });
  assert.equal(path, '/organizations/a%2Fb/provisionerjobs?status=pending');
  const login = operation('POST', '/users/login');
  assert.equal(
    curlOf(login, 'https://dev.example.com', '/users/login', `{"password":"it's"}`),
    `curl -X POST https://dev.example.com/api/v2/users/login \\
  -H 'Content-Type: application/json' \\
  -d '{"password":"it'\\''s"}'`,
  );
});
