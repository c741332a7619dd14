import { type ClientRequest, type IncomingMessage, request as requestOf, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit';
import { splice } from '@ropewalk/wire/splice';
import { pairs, towardsApp, towardsBrowser } from './headers.ts';
import { explained, type Plan } from './plan.ts';
import { type Dial, dialApp } from './pool.ts';

export interface IncomingUpgrade {
  request: IncomingMessage;
  /** The browser's connection, and what it sent after the request. */
  socket: Duplex;
  head: Buffer;
  response: ServerResponse;
  plan: Plan;
  /** Called at the end, in every case. */
  done(): void;
}

/** One upgrade on its way to an app. After the app's 101, bytes pass unchanged. The end comes once. */
export class ForwardedUpgrade {
  readonly #incoming: IncomingUpgrade;
  readonly #dialing = new AbortController();
  /** The connection to the app. */
  #inside: Duplex | undefined;
  #over = false;

  constructor(incoming: IncomingUpgrade) {
    this.#incoming = incoming;
  }

  async begin(dial: Dial, answerMs: number): Promise<void> {
    this.#incoming.socket.once('close', () => this.cut());
    try {
      const stream = await dialApp(dial, this.#incoming.plan.target, this.#dialing.signal);
      this.#inside = stream;
      if (this.#over) stream.destroy();
      else this.#ask(stream, answerMs);
    } catch (err) {
      this.#fail(err as Error);
    }
  }

  /** Ends both connections. */
  cut(): void {
    this.#finish();
    this.#dialing.abort(new AppError('canceled', 'The connection was closed.'));
    this.#inside?.destroy();
    this.#incoming.socket.destroy();
  }

  #ask(stream: Duplex, answerMs: number): void {
    const { request, response, plan } = this.#incoming;
    const outgoing: ClientRequest = requestOf({
      createConnection: () => stream as never,
      method: request.method!,
      path: plan.path,
      headers: [...towardsApp(request.rawHeaders, plan), 'Connection', 'Upgrade', 'Upgrade', request.headers.upgrade!],
    });
    const timer = setTimeout(
      () => this.#fail(new AppError('timeout', `The app did not answer within ${Math.ceil(answerMs / 1_000)} s.`)),
      answerMs,
    );
    outgoing.on('upgrade', (answer, _stream, rest) => {
      clearTimeout(timer);
      this.#splice(stream, answer, rest);
    });
    outgoing.on('response', (answer) => {
      clearTimeout(timer);
      relay(request, response, answer, plan, (err) => this.#fail(err));
    });
    outgoing.on('error', (err) => {
      clearTimeout(timer);
      this.#fail(err);
    });
    outgoing.end();
  }

  #splice(stream: Duplex, answer: IncomingMessage, rest: Buffer): void {
    const { socket, head, response, plan } = this.#incoming;
    response.detachSocket(socket as never);
    socket.write(switching(answer, plan));
    if (rest.length > 0) socket.write(rest);
    if (head.length > 0) stream.write(head);
    void splice(socket, stream)
      .catch(() => {})
      .finally(() => this.#finish());
  }

  #fail(err: Error): void {
    if (this.#over) return;
    this.#finish();
    this.#inside?.destroy();
    explained(this.#incoming.request, this.#incoming.response, this.#incoming.plan, err);
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    this.#incoming.done();
  }
}

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
