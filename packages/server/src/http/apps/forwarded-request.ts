import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit';
import type { AnswerHead } from './answer-parser.ts';
import { pairs, towardsApp, towardsBrowser } from './headers.ts';
import { explained, type Plan } from './plan.ts';
import type { AppConnection, AppConnections, Exchange } from './pool.ts';

const WITH_BODY = new Set(['POST', 'PUT', 'PATCH']);
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/**
 * One request on its way to an app, and the app's answer on its way back. `begin` sends it over an idle connection or a
 * new one. The connection then calls the methods of Exchange. The end comes once: with the answer, a failure or a cut.
 */
export class ForwardedRequest implements Exchange {
  readonly #connections: AppConnections;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #plan: Plan;
  readonly #done: () => void;
  readonly #body: Framing;
  readonly #head: string;
  readonly #dialing = new AbortController();
  #connection: AppConnection | undefined;
  /** Whether the end has come. */
  #over = false;
  /** Whether the app's answer has begun. */
  #answering = false;
  /** Whether the whole request was sent. */
  #sent = false;

  /** @param done called at the end, in every case */
  constructor(
    connections: AppConnections,
    request: IncomingMessage,
    response: ServerResponse,
    plan: Plan,
    done: () => void,
  ) {
    this.#connections = connections;
    this.#request = request;
    this.#response = response;
    this.#plan = plan;
    this.#done = done;
    this.#body = framing(request);
    const headers = [...towardsApp(request.rawHeaders, plan), ...this.#body.headers];
    this.#head = requestHead(request.method!, plan.path, headers);
  }

  begin(): void {
    if (this.#body.any && this.#request.headers.expect !== undefined) this.#response.writeContinue();
    this.#attempt();
    this.#response.once('close', () => this.#stop());
  }

  /** Ends the exchange and the connection of the browser. */
  cut(): void {
    this.#stop();
    this.#response.destroy();
  }

  #attempt(): void {
    const idle = this.#connections.idle(this.#plan.target);
    if (idle) {
      this.#ask(idle);
      return;
    }
    this.#connections.dial(this.#plan.target, this.#dialing.signal).then(
      (fresh) => {
        if (this.#over) fresh.stream.destroy();
        else this.#ask(fresh);
      },
      (err: Error) => this.#refused(err),
    );
  }

  #ask(connection: AppConnection): void {
    this.#connection = connection;
    connection.begin(this, this.#request.method!);
    connection.stream.write(this.#head, 'latin1');
    const all = () => {
      this.#sent = true;
      connection.asked();
    };
    if (this.#body.any) forwardBody(this.#request, connection.stream, this.#body.chunked, all);
    else all();
  }

  head(answer: AnswerHead): void {
    this.#answering = true;
    const { kind, hostName, answerHeaders, cors } = this.#plan;
    const response = this.#response;
    response.writeHead(answer.status, answer.message, [
      ...towardsBrowser(answer.headers, kind, hostName),
      ...answerHeaders,
      ...(cors.length > 0 && !has(answer.headers, 'access-control-allow-origin') ? cors : []),
    ]);
    // the first event of a stream may take long, so the browser gets the head immediately
    process.nextTick(() => {
      if (!response.writableEnded && !response.destroyed) response.flushHeaders();
    });
  }

  data(part: Buffer): void {
    const { stream } = this.#connection!;
    // many small chunks of one read cause one wait
    if (this.#response.write(part) || stream.isPaused()) return;
    stream.pause();
    this.#response.once('drain', () => stream.resume());
  }

  end(last: Buffer | undefined, trailers: readonly string[]): void {
    if (trailers.length > 0) this.#response.addTrailers(pairs(trailers));
    this.#response.end(last);
    this.#finish();
    if (this.#sent) this.#connections.keep(this.#connection!);
    // the app has answered before it has read everything, so the start of its next request is unknown
    else this.#connection!.stream.destroy();
  }

  drained(): void {
    this.#request.resume();
  }

  failed(err: Error): void {
    // the app may close an idle connection just as it is used again. A request without side effects is then sent once more
    const isUnanswered = this.#connection!.used && !this.#answering && !this.#over;
    if (isUnanswered && !this.#body.any && REPEATABLE.has(this.#request.method!)) this.#attempt();
    else this.#refused(err);
  }

  #refused(err: Error): void {
    if (this.#over) return;
    this.#finish();
    if (this.#response.headersSent) this.#response.destroy();
    else explained(this.#request, this.#response, this.#plan, err);
  }

  /** Ends the exchange if its end has not come yet. */
  #stop(): void {
    if (this.#over) return;
    this.#finish();
    this.#dialing.abort(new AppError('canceled', 'The connection was closed.'));
    this.#connection?.stream.destroy();
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    this.#done();
  }
}

interface Framing {
  headers: string[];
  any: boolean;
  chunked: boolean;
}

/** How a request's body is delimited, as Node has read it. */
function framing({ headers, method }: IncomingMessage): Framing {
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
