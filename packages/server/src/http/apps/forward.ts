import { type IncomingMessage, request as requestOf, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, isAppError } from '@ropewalk/kit';
import { splice } from '@ropewalk/wire/splice';
import type { AppKind } from '../../app/values/app-address.ts';
import { BadAnswer } from './answer-parser.ts';
import { towardsApp, towardsBrowser } from './headers.ts';
import { type Refusal, refuse } from './pages.ts';
import {
  AppClosed,
  type AppConnection,
  AppConnections,
  type Dial,
  dialApp,
  type Exchange,
  type Target,
} from './pool.ts';

/** One request, as the server sends it to an app. */
export interface Plan {
  target: Target;
  kind: AppKind;
  /** The request target for the app. */
  path: string;
  /** Of the browser. */
  forwardedFor: string;
  host: string;
  /** The host, without its port. */
  hostName: string;
  proto: string;
  /** Further headers for the answer, in raw form. */
  answerHeaders: readonly string[];
  /** Further headers that are added only if the app does not itself say which origins may read its answers. */
  cors: readonly string[];
  /** Called when the connection to the app or the app itself fails. */
  explain(err: Error): Promise<Refusal>;
}

export interface Forwarder {
  /** Forwards one request and its answer. Calls `done` at the end, in every case. Returns how to cut the exchange. */
  request(request: IncomingMessage, response: ServerResponse, plan: Plan, done: () => void): () => void;
  /** Forwards an upgrade. After the app's 101, bytes pass unchanged. */
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

/** How long an app may take until it answers. */
const ANSWER_MS = 300_000;

export function createForwarder(dial: Dial, { answerMs = ANSWER_MS } = {}): Forwarder {
  const connections = new AppConnections(dial, answerMs);

  function forward(request: IncomingMessage, response: ServerResponse, plan: Plan, done: () => void): () => void {
    const body = framing(request);
    const head = requestHead(request.method!, plan.path, [...towardsApp(request.rawHeaders, plan), ...body.headers]);
    const controller = new AbortController();
    let connection: AppConnection | undefined;
    let over = false;
    let begun = false;
    let sent = false;
    const finish = () => {
      if (over) return;
      over = true;
      done();
    };
    const refused = (err: Error) => {
      if (over) return;
      finish();
      if (response.headersSent) response.destroy();
      else explained(request, response, plan, err);
    };
    const exchange: Exchange = {
      head(answer) {
        begun = true;
        response.writeHead(answer.status, answer.message, [
          ...towardsBrowser(answer.headers, plan.kind, plan.hostName),
          ...plan.answerHeaders,
          ...(plan.cors.length > 0 && !has(answer.headers, 'access-control-allow-origin') ? plan.cors : []),
        ]);
        // the first event of a stream may take long, so the browser gets the head immediately
        process.nextTick(() => {
          if (!response.writableEnded && !response.destroyed) response.flushHeaders();
        });
      },
      data(part) {
        const { stream } = connection!;
        // many small chunks of one read cause one wait
        if (response.write(part) || stream.isPaused()) return;
        stream.pause();
        response.once('drain', () => stream.resume());
      },
      end(last, trailers) {
        if (trailers.length > 0) response.addTrailers(pairs(trailers));
        response.end(last);
        finish();
        if (sent) connections.keep(plan.target, connection!);
        // the app has answered before it has read everything, so the start of its next request is unknown
        else connection!.stream.destroy();
      },
      drained: () => request.resume(),
      failed(err) {
        // the app may close an idle connection just as it is used again. A request without side effects is then sent once more
        if (connection!.used && !begun && !over && !body.any && REPEATABLE.has(request.method!)) attempt();
        else refused(err);
      },
    };
    const ask = (to: AppConnection) => {
      connection = to;
      to.begin(exchange, request.method!);
      to.stream.write(head, 'latin1');
      const all = () => {
        sent = true;
        to.asked();
      };
      if (body.any) forwardBody(request, to.stream, body.chunked, all);
      else all();
    };
    const attempt = () => {
      const idle = connections.idle(plan.target);
      if (idle) return ask(idle);
      connections.dial(plan.target, controller.signal).then((fresh) => {
        if (over) fresh.stream.destroy();
        else ask(fresh);
      }, refused);
    };
    if (body.any && request.headers.expect !== undefined) response.writeContinue();
    attempt();
    const stop = () => {
      const cut = !over;
      finish();
      if (!cut) return;
      controller.abort(new AppError('canceled', 'The connection was closed.'));
      connection?.stream.destroy();
    };
    response.once('close', stop);
    return () => {
      stop();
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
        explained(request, response, plan, err);
      };
      socket.once('close', cut);
      dialApp(dial, plan.target, controller.signal)
        .then((stream) => {
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
        })
        .catch(fail);
      return cut;
    },
    close: () => connections.close(),
  };
}

/** Answers with the reason of a failure, after `explain` has looked for one. Never fails. */
function explained(request: IncomingMessage, response: ServerResponse, plan: Plan, err: Error): void {
  plan
    .explain(err)
    .then((refusal) => refuse(request, response, refusal))
    .catch(() => response.destroy());
}

const WITH_BODY = new Set(['POST', 'PUT', 'PATCH']);
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/** How a request's body is delimited, as Node has read it. */
function framing({ headers, method }: IncomingMessage): { headers: string[]; any: boolean; chunked: boolean } {
  const length = headers['content-length'];
  if (length !== undefined) return { headers: ['Content-Length', length], any: length !== '0', chunked: false };
  if (headers['transfer-encoding'] !== undefined) {
    return { headers: ['Transfer-Encoding', 'chunked'], any: true, chunked: true };
  }
  return { headers: WITH_BODY.has(method!) ? ['Content-Length', '0'] : [], any: false, chunked: false };
}

/** The head of a request as text. Node's parser lets no line ends through, and this checks it once more. */
function requestHead(method: string, path: string, headers: readonly string[]): string {
  let text = `${method} ${path} HTTP/1.1\r\n`;
  for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  if (text.split('\n').length !== headers.length / 2 + 2 || path.includes(' ')) {
    throw new AppError('invalid', 'The request could not be read.');
  }
  return `${text}\r\n`;
}

/** Forwards a request's body with back-pressure. Calls `all` when the last byte was sent. */
function forwardBody(request: IncomingMessage, to: Duplex, chunked: boolean, all: () => void): void {
  request.on('data', (part: Buffer) => {
    const framed = chunked ? Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, CRLF]) : part;
    if (!to.destroyed && !to.write(framed)) request.pause();
  });
  // an app that has answered early reads no more, so the rest is dropped
  const letGo = () => request.resume();
  to.once('close', letGo);
  // the connection outlives this request
  request.once('close', () => to.off('close', letGo));
  request.on('end', () => {
    if (chunked && !to.destroyed) {
      const trailers = pairs(request.rawTrailers).map(([name, value]) => `${name}: ${value}\r\n`);
      to.write(`0\r\n${trailers.join('')}\r\n`, 'latin1');
    }
    all();
  });
}

const CRLF = Buffer.from('\r\n');
const has = (headers: readonly string[], name: string) =>
  headers.some((text, i) => i % 2 === 0 && text.toLowerCase() === name);

/** Forwards an app's answer as it arrives. */
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
  // the first event of a stream may take long, so the browser gets the head immediately
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

/** The page for an error between the server and an app, if nothing more is known. */
export function refusalOf(err: Error): Refusal {
  if (isAppError(err, 'timeout')) return { status: 504, title: 'The app does not answer.', detail: err.message };
  if (isAppError(err))
    return { status: 502, title: 'The app cannot be reached.', detail: `${err.message} Is it running?` };
  const { code } = err as NodeJS.ErrnoException;
  const bad = err instanceof BadAnswer || code?.startsWith('HPE_') || code?.startsWith('ERR_');
  if (bad) {
    const detail = `What it sent is not HTTP as this server takes it: ${code === 'HPE_HEADER_OVERFLOW' ? 'its headers are too large' : err.message}.`;
    return { status: 502, title: 'The app gave no proper answer.', detail };
  }
  const cause = err instanceof AppClosed ? '' : ` (${err.message})`;
  return {
    status: 502,
    title: 'The app gave no answer.',
    detail: `The app closed the connection before it answered${cause}.`,
  };
}
