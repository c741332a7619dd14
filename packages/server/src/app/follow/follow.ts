/**
 * The one loop behind every stream of the API: read what is new from a source, send it to a sink, and wait for a wake-up.
 * A source is a log that grows or a value that changes. A sink is the connection of one reader.
 */
import { errorText } from '@ropewalk/kit';
import { type Permission, whileAllowed } from '../context/allowed.ts';
import type { Ctx } from '../context/context.ts';
import { createWakeUp } from './wake-up.ts';

/** The longest wait between two looks, unless the source names another: a lost notification delays messages by no more than this. */
const LOOK_AGAIN_MS = 1_000;

export interface Source<Message = string> {
  /** Checked again for as long as the stream is open. */
  permission: Permission;
  /** Calls `wake` whenever there may be news. Returns how to unsubscribe. */
  subscribe(wake: () => void): () => void;
  /** The longest wait between two looks without news, in ms. Default: 1,000. For sources whose looks are expensive. */
  lookAgainMs?: number;
  /** Reads what is new. `more` asks for another call immediately, `end` ends the stream after these messages. */
  next(): Promise<News<Message>>;
}

export interface News<Message = string> {
  messages: Message[];
  more: boolean;
  end: boolean;
}

/** A message with a name and, so that a reader can resume after it, an id. */
export interface NamedEvent {
  event: string;
  id: string;
  /** JSON. */
  data: string;
}

/** Why the server ends a stream: the source is complete, the reader lost the permission, or reading failed. */
export type Outcome = 'complete' | 'forbidden' | 'failed';

export interface Sink<Message = string> {
  /** Sends a message. Returns a promise if the reader is behind, which resolves once the reader is ready or gone. */
  send(message: Message): Promise<void> | undefined;
  /** Aborted once the reader is gone. */
  gone: AbortSignal;
  /** Ends the stream. Called at most once, and nothing is sent afterwards. */
  end(outcome: Outcome): void;
}

/** Sends what is new in a source to one reader, at the reader's pace, until the stream ends. Never rejects. */
export async function follow<Message>(ctx: Ctx, source: Source<Message>, sink: Sink<Message>): Promise<void> {
  const { wake, wait } = createWakeUp();
  let over = false;
  const leave = () => {
    over = true;
    wake();
  };
  const finish = (outcome: Outcome) => {
    if (over) return;
    leave();
    sink.end(outcome);
  };
  if (sink.gone.aborted) return;
  sink.gone.addEventListener('abort', leave, { once: true });
  const unsubscribe = source.subscribe(wake);
  const stopWatching = whileAllowed(ctx, source.permission, () => finish('forbidden'));
  try {
    while (!over) {
      const { messages, more, end } = await source.next();
      for (const message of messages) {
        if (over) return;
        const ready = sink.send(message);
        if (ready) await ready;
      }
      if (end) finish('complete');
      else if (!more) await wait(source.lookAgainMs ?? LOOK_AGAIN_MS);
    }
  } catch (err) {
    ctx.log.warn('a stream failed', { err: errorText(err) });
    finish('failed');
  } finally {
    sink.gone.removeEventListener('abort', leave);
    unsubscribe();
    stopWatching();
  }
}
