import type { Duplex } from 'node:stream';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import type { ResumableSessions, SessionHolder } from '@ropewalk/wire/resume/sessions';
import { acceptTunnel, type OfferedTunnel, type TunnelRequest } from '@ropewalk/wire/tunnel';
import type { YamuxStream } from '@ropewalk/wire/yamux';
import type { Activity } from './activity.ts';
import { connectionOf } from './services/connection.ts';
import type { Services } from './services/service.ts';

export interface TunnelContext {
  services: Services;
  /** The sessions that outlive their connections. */
  sessions: ResumableSessions;
  activity: Pick<Activity, 'tunnelEnded'>;
  log: Logger;
}

/** The services whose tunnels are connections of a person, and that do not report their end themselves. */
const RECORDED: Readonly<Record<string, 'ssh' | 'port'>> = { ssh: 'ssh', tcp: 'port', udp: 'port' };

/** Reports the end of a tunnel, or of its session, which may outlive several connections. */
function reportEnd(stream: Duplex, request: TunnelRequest, activity: TunnelContext['activity']): void {
  const kind = ownValue(RECORDED, request.service);
  const connection = connectionOf(request);
  if (!kind || !connection) return;
  stream.once('close', () => activity.tunnelEnded(kind, connection, stream.errored ? errorText(stream.errored) : ''));
}

/** Reads the user and API key that the server has authorized for this connection. */
export function holderOf({ holder }: TunnelRequest): SessionHolder {
  const { user, key } = (holder ?? {}) as Partial<SessionHolder>;
  if (typeof user !== 'string' || typeof key !== 'string') {
    throw new AppError('invalid', 'The tunnel request has no valid "holder".');
  }
  return { user, key };
}

/** Serves one stream that the server has opened to this agent. Never throws. */
export async function serveTunnel(stream: YamuxStream, context: TunnelContext): Promise<void> {
  const { services, sessions, activity, log } = context;
  try {
    const tunnel = await acceptTunnel(stream);
    const { request } = tunnel;
    const accepted: OfferedTunnel = {
      request,
      accept: () => {
        const holder = request['resume'] === 'new' ? holderOf(request) : undefined;
        const bytes = tunnel.accept();
        const served = holder ? sessions.serve(bytes, holder) : bytes;
        reportEnd(served, request, activity);
        return served;
      },
      refuse: (text) => tunnel.refuse(text),
    };
    try {
      if (request['resume'] === 'attach') {
        const holder = holderOf(request);
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
      if (tunnel.answered) throw err;
      accepted.refuse(errorText(err));
    }
  } catch (err) {
    log.debug('a tunnel ended', { err: errorText(err) });
  }
}
