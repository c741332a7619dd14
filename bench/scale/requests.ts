// HTTP requests and server-sent events of many people in one process. `fetch` would take as much of a processor as the server.
import { Agent, type IncomingMessage, request } from 'node:http';

export interface Call {
  method?: string;
  path: string;
  token?: string;
  body?: unknown;
}

export interface Answer {
  status: number;
  text: string;
}

/** Keeps connections open, as browsers do. */
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
const TIMEOUT_MS = 60_000;

function send(url: string, { method = 'GET', path, token, body }: Call, own: boolean): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers: Record<string, string> = { accept: 'application/json' };
    if (token) headers['Coder-Session-Token'] = token;
    if (body !== undefined) headers['content-type'] = 'application/json';
    const call = request(`${url}/api/v2${path}`, { method, headers, agent: own ? false : agent }, resolve);
    call.setTimeout(own ? 0 : TIMEOUT_MS, () => call.destroy(new Error(`${path}: no answer within 60 s`)));
    call.once('error', reject);
    call.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** An answer with a status of 400 or more. */
export class AnswerError extends Error {
  readonly status: number;

  constructor(status: number, call: string, text: string) {
    super(`${call} answered ${status}: ${text}`);
    this.status = status;
  }
}

/** Reads the whole answer. @throws AnswerError */
export async function ask(url: string, call: Call): Promise<Answer> {
  const response = await send(url, call, false);
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  const answer = { status: response.statusCode!, text: Buffer.concat(parts).toString() };
  if (answer.status >= 400)
    throw new AnswerError(answer.status, `${call.method ?? 'GET'} ${call.path}`, answer.text.slice(0, 300));
  return answer;
}

export interface EventStream {
  /** Resolves when the stream has ended, which it does not do by itself. */
  ended: Promise<void>;
  close(): void;
}

/** Opens a stream of events. Resolves when the first event has arrived. */
export async function openEvents(
  url: string,
  call: Call,
  onEvent: (name: string, data: string) => void,
): Promise<EventStream> {
  const response = await send(url, call, true);
  if (response.statusCode !== 200) throw new Error(`GET ${call.path} answered ${response.statusCode}`);
  const first = Promise.withResolvers<void>();
  const ended = new Promise<void>((resolve) => response.once('close', resolve));
  let rest = '';
  response.setEncoding('utf8');
  response.on('data', (text: string) => {
    const events = (rest + text).split('\n\n');
    rest = events.pop()!;
    for (const event of events) {
      const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, 'm').exec(event)?.[1] ?? '';
      onEvent(field('event'), field('data'));
      first.resolve();
    }
  });
  response.on('error', () => {});
  await Promise.race([
    first.promise,
    ended.then(() => Promise.reject(new Error(`GET ${call.path} ended before its first event`))),
  ]);
  return { ended, close: () => response.destroy() };
}
