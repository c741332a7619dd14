import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';

export interface Asked {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
  /** Set-Cookie as name=value. */
  cookies: string[];
}

export interface Question {
  method?: string;
  path?: string;
  /** Default: the server's own address. */
  host?: string;
  headers?: Record<string, string | string[]>;
  body?: string | Buffer;
}

/** Sends a request with any Host. Resolves when the head of the answer has arrived. */
export async function open(url: string, question: Question = {}): Promise<IncomingMessage> {
  const { hostname, port, host } = new URL(url);
  const asking = request({
    hostname,
    port,
    method: question.method ?? 'GET',
    path: question.path ?? '/',
    headers: { Host: question.host ?? host, ...question.headers },
    agent: false,
  });
  asking.end(question.body);
  const [answer] = (await once(asking, 'response')) as [IncomingMessage];
  return answer;
}

export async function ask(url: string, question: Question = {}): Promise<Asked> {
  const answer = await open(url, question);
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part as Buffer);
  return {
    status: answer.statusCode!,
    headers: answer.headers,
    body: Buffer.concat(parts).toString(),
    cookies: (answer.headers['set-cookie'] ?? []).map((cookie) => cookie.split(';')[0]!),
  };
}

/** Sends these bytes, and returns everything that arrives until the connection ends or `enough` is true. */
export async function raw(url: string, bytes: string, enough?: (text: string) => boolean): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(bytes, 'latin1');
  let text = '';
  const timer = setTimeout(() => socket.destroy(), 30_000);
  socket.on('data', (part: Buffer) => {
    text += part.toString('latin1');
    if (enough?.(text)) socket.destroy();
  });
  socket.on('error', () => {});
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  clearTimeout(timer);
  return text;
}
