import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { freePorts } from './ports.ts';

test('gives each port once, from a range that no other socket gets by itself', async () => {
  const ports = await freePorts(50);
  assert.equal(new Set(ports).size, 50);
  assert.ok(Math.min(...ports) >= 20_000 && Math.max(...ports) < 32_768, ports.join());
  for (const port of ports) {
    const server = createServer().listen(port, '127.0.0.1');
    await once(server, 'listening');
    server.close();
  }
});
