import assert from 'node:assert/strict';
import { test } from 'node:test';
import { audienceIncludes, ownResource } from './audience.ts';

const URL = 'https://coder.example.com';
const PART = `${URL}/api/experimental/mcp/http`;

test('an audience is the server, or the paths below one', () => {
  const cases: [audience: string, path: string | undefined, expected: boolean][] = [
    [URL, undefined, true],
    ['HTTPS://Coder.Example.com:443/', '/anything', true],
    [PART, '/api/experimental/mcp/http', true],
    [PART, '/api/experimental/mcp/http/x?y', true],
    [PART, undefined, false],
    [PART, '/api/experimental/mcp/httpx', false],
    [PART, '/api/experimental/mcp/http/../../x', false],
    [PART, '/api/experimental/mcp/http/%2e%2e/x', false],
    [PART, '/api/v2/users/me', false],
    ['http://coder.example.com', '/x', false],
    ['https://other.example.com', '/x', false],
    ['nonsense', '/x', false],
  ];
  for (const [audience, path, expected] of cases)
    assert.equal(audienceIncludes(audience, URL, path), expected, `${audience} ${path}`);
});

test('a resource is an address of this server without a fragment or a query', () => {
  assert.equal(ownResource(`${URL}/`, URL), URL);
  assert.equal(ownResource(`${PART}/`, URL), PART);
  assert.equal(ownResource(`${URL}/base/x`, `${URL}/base`), `${URL}/base/x`);
  for (const other of [`${URL}#`, `${URL}/#x`, `${URL}?x`, `${URL}:444`, 'https://a@coder.example.com', '/x', ''])
    assert.equal(ownResource(other, URL), undefined, other);
  assert.equal(ownResource(`${URL}/x`, `${URL}/base`), undefined);
});
