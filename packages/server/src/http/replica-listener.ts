import { X509Certificate } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import { createServer, type Server as HttpsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { refuseUpgrade } from '@ropewalk/wire/websocket';
import type { ReplicaKey } from '../cluster/handshake.ts';
import { PEER_PATH } from '../cluster/peers.ts';
import { LISTENER } from './listener.ts';

export interface ReplicaListenerOptions {
  key: ReplicaKey;
  log: Logger;
  /** The certificates of the live servers, as PEM. */
  readCertificates(): Promise<string[]>;
}

/**
 * The listener of --cluster-address. Both ends show a certificate of the database, so no certificates need to be made or
 * trusted for it. It accepts the streams of other servers, whose upgrades `server` then answers, and nothing else.
 */
export function createReplicaListener(
  server: Server,
  { key, log, readCertificates }: ReplicaListenerOptions,
): HttpsServer {
  const secure = createServer(
    // whether the certificate is one of a server is not a matter of authorities
    { ...LISTENER, ...key.tls, minVersion: 'TLSv1.3', requestCert: true, rejectUnauthorized: false },
    (_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json; charset=utf-8', connection: 'close' });
      response.end(JSON.stringify({ message: 'Only servers of this deployment connect here.' }));
    },
  );
  key.onRenewed(() => secure.setSecureContext({ ...key.tls, minVersion: 'TLSv1.3' }));
  const check = async (request: IncomingMessage) => {
    if (request.url !== PEER_PATH) throw new AppError('not_found', 'Only servers of this deployment connect here.');
    const shown = (request.socket as TLSSocket).getPeerX509Certificate();
    const known = shown && (await readCertificates()).some((pem) => pem !== '' && isSame(shown, pem));
    if (!known) throw new AppError('unauthenticated', 'The certificate is not that of a server of this deployment.');
  };
  secure.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const ignore = () => {};
    socket.on('error', ignore);
    check(request).then(
      () => {
        socket.off('error', ignore);
        server.emit('upgrade', request, socket, head);
      },
      (err: unknown) => {
        log.debug('rejected a connection of another server', { err: errorText(err) });
        const [status, message] =
          err instanceof AppError
            ? [err.code === 'not_found' ? 404 : 401, err.message]
            : [503, 'The database does not answer.'];
        refuseUpgrade(socket, status, { message });
      },
    );
  });
  return secure;
}

const isSame = (shown: X509Certificate, pem: string) => shown.raw.equals(new X509Certificate(pem).raw);
