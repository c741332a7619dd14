import {
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
  request as requestOf,
  type ServerResponse,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, isAppError } from '@platform/kit';
import { splice } from '@platform/wire/splice';
import type { AppKind } from '../../app/application/address.ts';
import { towardsApp, towardsBrowser } from './headers.ts';
import { type Refusal, refuse } from './pages.ts';
import { AppConnections, type Dial, dialApp, type Target } from './pool.ts';

/** One request, as it goes on to an app. */
export interface Plan {
  target: Target;
  kind: AppKind;
  /** The request target that the app gets. */
  path: string;
  /** Of the browser. */
  ip: string;
  host: string;
  /** Without its port. */
  hostName: string;
  proto: string;
  /** More headers for the answer, in raw form. */
  answerHeaders: readonly string[];
  /** The same, unless the app itself says who may read its answers. */
  cors: readonly string[];
  /** Called when the connection to the app or the app itself fails. */
  explain(err: Error): Promise<Refusal>;
}

export interface Forwarder {
  /** Carries one exchange. `done` is called when it is over, whichever way. Gives back how to cut it. */
  request(request: IncomingMessage, response: ServerResponse, plan: Plan, done: () => void): () => void;
  /** Carries an upgrade: after the app's 101 bytes go through as they are. */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    response: ServerResponse,
    plan: Plan,
    done: () => void,
  ): () => void;
  close(): void;
}

/** How long an app may think before it answers. */
const ANSWER_MS = 300_000;

export function createForwarder(dial: Dial, { answerMs = ANSWER_MS } = {}): Forwarder {
  const connections = new AppConnections(dial);

  function send(request: IncomingMessage, headers: string[], plan: Plan): ClientRequest {
    const options: RequestOptions & { target: Target } = {
      agent: connections,
      target: plan.target,
      method: request.method!,
      path: plan.path,
      headers,
      maxHeaderSize: 64 * 1024,
    };
    return requestOf(options);
  }

  function forward(request: IncomingMessage, response: ServerResponse, plan: Plan, done: () => void): () => void {
    const headers = towardsApp(request.rawHeaders, plan);
    const length = request.headers['content-length'];
    const chunked = request.headers['transfer-encoding'] !== undefined;
    if (length !== undefined) headers.push('Content-Length', length);
    else if (chunked) headers.push('Transfer-Encoding', 'chunked');
    else if (WITH_BODY.has(request.method!)) headers.push('Content-Length', '0');
    const hasBody = chunked || (length !== undefined && length !== '0');
    let over = false;
    let timer: NodeJS.Timeout | undefined;
    let outgoing: ClientRequest;
    const finish = () => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      done();
    };
    const fail = (err: Error) => {
      if (over) return;
      finish();
      outgoing.destroy();
      if (response.headersSent) response.destroy();
      else void plan.explain(err).then((refusal) => refuse(request, response, refusal));
    };
    const wait = () => {
      if (over) return;
      timer = setTimeout(
        () => fail(new AppError('timeout', `The app has not answered for ${answerMs / 1000} s.`)),
        answerMs,
      );
    };
    const attempt = () => {
      outgoing = send(request, headers, plan);
      outgoing.on('response', (answer) => {
        clearTimeout(timer);
        if (over) return answer.destroy();
        relay(request, response, answer, plan, fail);
      });
      // an answer that nobody asked for
      outgoing.on('upgrade', (_answer, stream) => {
        stream.destroy();
        fail(new Error('the app switched protocols without being asked'));
      });
      outgoing.on('error', (err: NodeJS.ErrnoException) => {
        // the app may close an idle connection at the moment it is used again: asked once more, if that does no harm
        if (outgoing.reusedSocket && !over && !response.headersSent && !hasBody && REPEATABLE.has(request.method!)) {
          clearTimeout(timer);
          attempt();
          return;
        }
        fail(err);
      });
      if (!hasBody) {
        outgoing.end();
        wait();
      }
    };
    attempt();
    if (hasBody) {
      if (request.headers.expect !== undefined) response.writeContinue();
      carryBody(request, outgoing!);
      outgoing!.once('finish', wait);
    }
    response.once('close', () => {
      if (!response.writableFinished) outgoing.destroy();
      finish();
    });
    return () => {
      finish();
      outgoing.destroy();
      response.destroy();
    };
  }

  return {
    request: forward,
    upgrade(request, socket, head, response, plan, done) {
      const controller = new AbortController();
      let inside: Duplex | undefined;
      let over = false;
      const finish = () => {
        if (over) return;
        over = true;
        done();
      };
      const cut = () => {
        finish();
        controller.abort(new AppError('canceled', 'The connection was closed.'));
        inside?.destroy();
        socket.destroy();
      };
      const fail = (err: Error) => {
        if (over) return;
        finish();
        inside?.destroy();
        void plan.explain(err).then((refusal) => refuse(request, response, refusal));
      };
      socket.once('close', cut);
      dialApp(dial, plan.target, controller.signal).then((stream) => {
        inside = stream;
        if (over) return stream.destroy();
        const outgoing = requestOf({
          createConnection: () => stream as never,
          method: request.method!,
          path: plan.path,
          headers: [
            ...towardsApp(request.rawHeaders, plan),
            'Connection',
            'Upgrade',
            'Upgrade',
            request.headers.upgrade!,
          ],
        });
        const timer = setTimeout(() => fail(new AppError('timeout', 'The app has not answered.')), answerMs);
        outgoing.on('upgrade', (answer, _stream, rest) => {
          clearTimeout(timer);
          response.detachSocket(socket as never);
          socket.write(switching(answer, plan));
          if (rest.length > 0) socket.write(rest);
          if (head.length > 0) stream.write(head);
          void splice(socket, stream)
            .catch(() => {})
            .finally(finish);
        });
        outgoing.on('response', (answer) => {
          clearTimeout(timer);
          relay(request, response, answer, plan, fail);
        });
        outgoing.on('error', (err) => {
          clearTimeout(timer);
          fail(err);
        });
        outgoing.end();
      }, fail);
      return cut;
    },
    close: () => connections.destroy(),
  };
}

const WITH_BODY = new Set(['POST', 'PUT', 'PATCH']);
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

function carryBody(request: IncomingMessage, outgoing: ClientRequest): void {
  request.on('data', (part: Buffer) => {
    if (!outgoing.write(part)) request.pause();
  });
  outgoing.on('drain', () => request.resume());
  request.on('end', () => {
    if (request.rawTrailers.length > 0) outgoing.addTrailers(pairs(request.rawTrailers));
    outgoing.end();
  });
  // the browser has gone in the middle: the app must not take it for the whole
  request.on('aborted', () => outgoing.destroy());
}

/** Gives an app's answer on as it comes. */
function relay(
  request: IncomingMessage,
  response: ServerResponse,
  answer: IncomingMessage,
  plan: Plan,
  fail: (err: Error) => void,
): void {
  try {
    response.writeHead(answer.statusCode!, answer.statusMessage!, [
      ...towardsBrowser(answer.rawHeaders, plan.kind, plan.hostName),
      ...plan.answerHeaders,
      ...(answer.headers['access-control-allow-origin'] === undefined ? plan.cors : []),
    ]);
  } catch (err) {
    answer.destroy();
    fail(err as Error);
    return;
  }
  answer.on('data', (part: Buffer) => {
    if (!response.write(part)) answer.pause();
  });
  response.on('drain', () => answer.resume());
  // an event stream's first event may take long: the browser should know that it has begun
  if (answer.headers['content-length'] === undefined && request.method !== 'HEAD') response.flushHeaders();
  answer.on('end', () => {
    if (answer.rawTrailers.length > 0) response.addTrailers(pairs(answer.rawTrailers));
    response.end();
  });
  answer.on('error', fail);
  answer.on('close', () => {
    if (!answer.complete) fail(new Error('the app closed the connection within its answer'));
  });
}

function pairs(raw: readonly string[]): [string, string][] {
  return Array.from({ length: raw.length / 2 }, (_, i) => [raw[2 * i]!, raw[2 * i + 1]!]);
}

/** The head of an app's 101 for the browser. */
function switching(answer: IncomingMessage, plan: Plan): string {
  const headers = [
    ...towardsBrowser(answer.rawHeaders, plan.kind, plan.hostName),
    'Connection',
    'Upgrade',
    ...(answer.headers.upgrade === undefined ? [] : ['Upgrade', answer.headers.upgrade]),
    ...plan.answerHeaders,
  ];
  const lines = pairs(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`;
}

/** What becomes of an error on the way to an app, where nothing more is known. */
export function refusalOf(err: Error): Refusal {
  if (isAppError(err, 'timeout')) return { status: 504, title: 'The app does not answer.', detail: err.message };
  if (isAppError(err))
    return { status: 502, title: 'The app can not be reached.', detail: `${err.message} Is it running?` };
  const { code } = err as NodeJS.ErrnoException;
  if (code === 'HPE_HEADER_OVERFLOW') {
    return { status: 502, title: 'The app gave no proper answer.', detail: 'Its headers are larger than 64 KiB.' };
  }
  if (code?.startsWith('HPE_') || code?.startsWith('ERR_INVALID')) {
    return { status: 502, title: 'The app gave no proper answer.', detail: 'What it sent is not HTTP.' };
  }
  return { status: 502, title: 'The app gave no answer.', detail: 'It closed the connection before it had answered.' };
}
