// `coder provisioner start` against a minimal server in this process, until it waits for a job.
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { acceptWebSocket, byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';

/** The calls of a daemon that waits for a job: it watches for notices, and asks for a job. */
const STREAMS = 2;

/** Returns the words of the command. The process ends when the daemon waits. */
export async function prepareDaemon(): Promise<string[]> {
  const dir = mkdtempSync(join(tmpdir(), 'train-'));
  process.once('exit', () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  const terraform = join(dir, 'terraform');
  writeFileSync(terraform, '#!/bin/sh\necho Terraform v1.11.4\n', { mode: 0o755 });
  let streams = 0;
  const http = createServer();
  http.on('upgrade', (request, socket, head) => {
    const headers = { 'Platform-Capabilities': 'job-control/1' };
    new YamuxSession(byteStream(acceptWebSocket(request, socket, head, { headers })), {
      role: 'server',
      onStream: () => {
        streams++;
        if (streams === STREAMS) process.exit(0);
      },
    });
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  process.env['CODER_URL'] = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  return [
    'provisioner',
    'start',
    '--psk',
    'psk',
    '--log-human',
    '/dev/null',
    '--cache-dir',
    dir,
    '--terraform-binary',
    terraform,
  ];
}
