import type { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { acceptTunnel } from '@ropewalk/wire/tunnel';
import { pingService } from '../services/ping.ts';
import type { Service } from '../services/service.ts';
import { holderOf } from '../tunnels.ts';

/** How long a client may take to name what it wants, and its session, in ms. */
const HELLO_MS = 5_000;

/**
 * A tunnel of a client through a workspace proxy (PermittedTunnel in proxy-link.ts). It continues a session and begins none.
 * The permit names the holder, so a proxy that knows a session of another person cannot continue it.
 */
export const proxiedTunnel =
  (sessions: Pick<ResumableSessions, 'attach'>): Service =>
  async ({ request, accept }) => {
    const holder = holderOf(request);
    const tunnel = await acceptTunnel(accept(), { timeoutMs: HELLO_MS });
    const { service } = tunnel.request;
    if (service === 'ping') await pingService(tunnel);
    else if (service === 'session') await sessions.attach(tunnel.accept(), holder, { timeoutMs: HELLO_MS });
    else tunnel.refuse('Clients of a workspace proxy can continue a session or measure the round trip.');
  };
