import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endpoint, parseSpecs } from './specs.ts';

const short = (texts: string[]) =>
  parseSpecs('tcp', texts).map(({ host, localPort, remotePort }) => `${endpoint(host, localPort)}>${remotePort}`);

test('reads ports in every documented form', () => {
  assert.deepEqual(short(['8080']), [':8080>8080']);
  assert.deepEqual(short(['8080:3000', '9']), [':8080>3000', ':9>9']);
  assert.deepEqual(short(['1,2:3, 4']), [':1>1', ':2>3', ':4>4']);
  assert.deepEqual(short(['127.0.0.2:80:8080']), ['127.0.0.2:80>8080']);
  assert.deepEqual(short(['0.0.0.0:8080']), ['0.0.0.0:8080>8080']);
  assert.deepEqual(short(['localhost:0:8080']), ['localhost:0>8080']);
  assert.deepEqual(short(['[::1]:80:8080', '[::]:90']), ['[::1]:80>8080', '[::]:90>90']);
  assert.deepEqual(short(['9000-9002:8000-8002']), [':9000>8000', ':9001>8001', ':9002>8002']);
  assert.deepEqual(short(['10-11']), [':10>10', ':11>11']);
});

test('rejects invalid ports with the valid forms', () => {
  for (const text of [
    'x',
    '1:2:3:4',
    '-1',
    '65536',
    '0',
    '1:0',
    'a:b',
    '1:',
    '[::1]',
    '::1:80',
    '5-4',
    '1-3:1-2',
    '1-2000',
  ])
    assert.throws(() => parseSpecs('tcp', [text]), /^AppError: Invalid port "/, text);
});
