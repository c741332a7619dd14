import { errorText, type Logger } from '@platform/kit';
import { acceptTunnel } from '@platform/wire/tunnel';
import type { YamuxStream } from '@platform/wire/yamux';
import type { SshServer } from './ssh/server.ts';

/** Serves one stream that the server has opened towards this agent. Never throws. */
export async function serveTunnel(stream: YamuxStream, { ssh, log }: { ssh: SshServer; log: Logger }): Promise<void> {
  try {
    const tunnel = await acceptTunnel(stream);
    if (tunnel.request.service === 'ssh') ssh.serve(tunnel.accept());
    else tunnel.refuse(`This agent has no service ${JSON.stringify(String(tunnel.request.service).slice(0, 100))}.`);
  } catch (err) {
    log.debug('a tunnel could not be served', { err: errorText(err) });
  }
}
