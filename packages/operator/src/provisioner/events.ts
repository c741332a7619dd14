// Follows a server's stream of changes, so that a new job starts daemons without waiting for the next poll.
import type { IncomingMessage } from 'node:http';
import type { Change } from '@ropewalk/contract';
import { apiPath } from '@ropewalk/contract/api-path';
import { backoff, type Logger, RECONNECT } from '@ropewalk/kit';
import { pause } from '../machinery/informer.ts';

/** The server sends something more often than this, even without changes. */
const SILENCE_MS = 120_000;
/** What a poll reads. */
const KINDS: ReadonlySet<string> = new Set(['job', 'provisioner', 'provisioner_key']);

export interface EventsOptions {
  url: string;
  token: string;
  signal: AbortSignal;
  log: Logger;
  /** Called when the queue, a daemon or a key may have changed. */
  changed(): void;
}

/** Follows the stream until the signal aborts. Without it, the polls are enough, only later. */
export async function followEvents({ url, token, signal, log, changed }: EventsOptions): Promise<void> {
  const waits = backoff({ baseMs: 1_000, ...RECONNECT });
  while (!signal.aborted) {
    try {
      const response = await open(url, token, signal);
      if (response.statusCode !== 200) {
        response.resume();
        throw new Error(`${url} answered ${response.statusCode}`);
      }
      waits.reset();
      let rest = '';
      response.setEncoding('utf8');
      for await (const part of response as AsyncIterable<string>) {
        const blocks = (rest + part).split('\n\n');
        rest = blocks.pop()!;
        if (blocks.some(concerns)) changed();
      }
    } catch (err) {
      if (!signal.aborted) log.debug('no events from the server', { url, err });
    }
    await pause(waits.next(), signal);
  }
}

/** Whether an event of the stream means that a poll would find something new. */
export function concerns(block: string): boolean {
  const field = (name: string) =>
    block
      .split('\n')
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2);
  const event = field('event');
  if (event === 'hello' || event === 'reset') return true;
  return event === 'change' && KINDS.has((JSON.parse(field('data') ?? '{}') as Partial<Change>).kind ?? '');
}

function open(url: string, token: string, signal: AbortSignal): Promise<IncomingMessage> {
  const target = new URL(`${url}${apiPath('/events')}`);
  const { request } = process.getBuiltinModule(target.protocol === 'https:' ? 'node:https' : 'node:http');
  return new Promise((resolve, reject) => {
    const headers = { 'Coder-Session-Token': token, Accept: 'text/event-stream' };
    const req = request(target, { headers, signal }, resolve);
    req.setTimeout(SILENCE_MS, () => req.destroy(new Error(`silent for ${SILENCE_MS / 1000} s`)));
    req.once('error', reject);
    req.end();
  });
}
