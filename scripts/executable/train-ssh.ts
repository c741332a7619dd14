// `coder ssh` against a minimal server and agent in this process.
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { acceptWebSocket, byteStream } from '@ropewalk/wire/websocket';
import ssh2 from 'ssh2';

/** Returns the words of the command. */
export async function prepareSsh(): Promise<string[]> {
  const pem = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'sec1', format: 'pem' });
  const parsed = ssh2.utils.parseKey(pem);
  if (parsed instanceof Error) throw parsed;
  const hostKey = parsed.getPublicSSH().toString('base64');
  const agent = {
    id: 'agent',
    name: 'main',
    status: 'connected',
    lifecycle_state: 'ready',
    startup_script_behavior: 'non-blocking',
  };
  const workspace = {
    name: 'dev',
    owner_name: 'me',
    latest_build: { status: 'running', transition: 'start', resources: [{ agents: [agent] }] },
  };

  const sessions = new ResumableSessions();
  const ssh = new ssh2.Server({ hostKeys: [String(pem)] }, (client) => {
    client.on('error', () => {});
    client.on('authentication', (auth) => auth.accept());
    client.on('session', (accept) => {
      accept().on('exec', (acceptExec) => {
        const channel = acceptExec();
        channel.write('output\n');
        channel.exit(0);
        channel.end();
      });
    });
  });
  const http = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(workspace));
  });
  http.on('upgrade', (request, socket, head) => {
    const headers = { 'Platform-Ssh-Host-Key': hostKey, 'Platform-Capabilities': 'resume/1' };
    const stream = byteStream(acceptWebSocket(request, socket, head, { headers }));
    ssh.injectSocket(sessions.serve(stream, { user: 'me', key: 'key' }) as unknown as Socket);
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');

  process.env['CODER_URL'] = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  process.env['CODER_SESSION_TOKEN'] = 'token';
  return ['ssh', 'dev', '--', 'true'];
}
