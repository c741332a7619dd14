import { AppError, errorText, type Logger } from '@platform/kit';
import type { ResumableSessions, SessionHolder } from '@platform/wire/resume/sessions';
import { type AcceptedTunnel, acceptTunnel, type TunnelRequest } from '@platform/wire/tunnel';
import type { YamuxStream } from '@platform/wire/yamux';
import type { Services } from './services/service.ts';

export interface TunnelContext {
  services: Services;
  /** The sessions that outlive their connections. */
  sessions: ResumableSessions;
  log: Logger;
}

/** Reads the user and API key that the server has authorized for this connection. */
function holderOf({ holder }: TunnelRequest): SessionHolder {
  const { user, key } = (holder ?? {}) as Partial<SessionHolder>;
  if (typeof user !== 'string' || typeof key !== 'string') {
    throw new AppError('invalid', 'The tunnel request has no valid "holder".');
  }
  return { user, key };
}

/** Serves one stream that the server has opened to this agent. Never throws. */
export async function serveTunnel(stream: YamuxStream, context: TunnelContext): Promise<void> {
  const { services, sessions, log } = context;
  try {
    const tunnel = await acceptTunnel(stream);
    const { request } = tunnel;
    let answered = false;
    const accepted: AcceptedTunnel = {
      request,
      accept: () => {
        const holder = request['resume'] === 'new' ? holderOf(request) : undefined;
        answered = true;
        const bytes = tunnel.accept();
        return holder ? sessions.serve(bytes, holder) : bytes;
      },
      refuse: (text) => {
        answered = true;
        tunnel.refuse(text);
      },
    };
    try {
      if (request['resume'] === 'attach') {
        const holder = holderOf(request);
        answered = true;
        await sessions.attach(tunnel.accept(), holder);
        return;
      }
      const service = services.get(request.service);
      if (!service) {
        accepted.refuse(`This agent does not support the service ${JSON.stringify(request.service.slice(0, 100))}.`);
        return;
      }
      if (request['resume'] === 'new' && sessions.full) {
        accepted.refuse('This agent has reached its limit of sessions. Close some or try again later.');
        return;
      }
      await service(accepted);
    } catch (err) {
      if (answered) throw err;
      accepted.refuse(errorText(err));
    }
  } catch (err) {
    log.debug('a tunnel ended', { err: errorText(err) });
  }
}
