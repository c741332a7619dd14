import { errorText, type Logger } from '@platform/kit';
import { acceptTunnel } from '@platform/wire/tunnel';
import type { YamuxStream } from '@platform/wire/yamux';
import type { Services } from './services/service.ts';

/** Serves one stream that the server has opened towards this agent. Never throws. */
export async function serveTunnel(stream: YamuxStream, services: Services, log: Logger): Promise<void> {
  try {
    const tunnel = await acceptTunnel(stream);
    let answered = false;
    const accept = () => {
      answered = true;
      return tunnel.accept();
    };
    const refuse = (text: string) => {
      answered = true;
      tunnel.refuse(text);
    };
    const name = tunnel.request.service;
    const service = services.get(name);
    if (!service) return refuse(`This agent has no service ${JSON.stringify(name.slice(0, 100))}.`);
    try {
      await service({ request: tunnel.request, accept, refuse });
    } catch (err) {
      if (answered) throw err;
      refuse(errorText(err));
    }
  } catch (err) {
    log.debug('a tunnel ended', { err: errorText(err) });
  }
}
