// Real agents, a few in one separate process, for people who hold terminals, SSH sessions and forwarded ports. A port of
// the machine sends back what it receives.
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runAgent } from '@ropewalk/agent';
import { silentLogger } from '@ropewalk/kit';

export interface MachinesOrder {
  url: string;
  tokens: string[];
}

export interface MachinesReport {
  /** Of the port that sends back. */
  port: number;
}

if (process.argv[1] === import.meta.filename && process.send) {
  const home = mkdtempSync(join(tmpdir(), 'platform-machines-'));
  const stops: (() => Promise<void>)[] = [];
  process.on('disconnect', async () => {
    await Promise.allSettled(stops.map((stop) => stop()));
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    process.exit(0);
  });
  process.on('message', async ({ url, tokens }: MachinesOrder) => {
    for (const token of tokens) {
      const dir = mkdtempSync(join(home, 'agent-'));
      const agent = runAgent({
        url,
        token,
        version: 'v0.1.0',
        log: silentLogger,
        scriptDataDir: dir,
        logDir: dir,
        socketPath: '',
        devcontainers: false,
        env: { PATH: process.env['PATH'], HOME: dir, SHELL: '/bin/sh' },
      });
      stops.push(() => agent.stop());
    }
    const echo = createServer({ noDelay: true }, (socket) => {
      socket.on('error', () => {});
      socket.pipe(socket);
    });
    echo.listen(0, '127.0.0.1', () => process.send!({ port: (echo.address() as AddressInfo).port }));
  });
}
