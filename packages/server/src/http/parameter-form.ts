import { DynamicParametersRequest } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import { whileAllowed } from '../app/context/allowed.ts';
import type { Ctx } from '../app/context/context.ts';
import { inTurn } from '../app/lists/turns.ts';
import type { ParameterForm } from '../app/parameters/form.ts';
import { watchSilence } from './heartbeat.ts';
import { checkJsonSize, parseLoosely, tidyBody } from './input.ts';
import { validatorCompiler } from './validate.ts';
import { zeroReader } from './zero-values.ts';

const PING_MS = 15_000;
/** The lists, objects and fields of a message: as many values as a template can have, and the fields around them. */
const MAX_PARTS = 2_000;
/** The maximum number of bytes of answers that wait for a slow reader. */
const MAX_UNSENT = 1024 * 1024;

const validate = validatorCompiler({
  schema: DynamicParametersRequest,
  httpPart: 'body',
  method: '',
  url: '',
} as never);
const readZeroValues = zeroReader(DynamicParametersRequest);

/** @throws AppError `invalid` */
function parse(text: string): DynamicParametersRequest {
  const bytes = Buffer.from(text);
  checkJsonSize(bytes, MAX_PARTS);
  const request = parseLoosely(bytes);
  tidyBody(request, true);
  readZeroValues(request);
  if (validate(request) !== true)
    throw new AppError('invalid', 'A message must be a JSON object with id, inputs and owner_id.');
  return request as DynamicParametersRequest;
}

/**
 * Answers each message with the parameters as they are with its values, and begins with an answer for no values. While
 * an answer is computed, only the newest waiting message is kept, as text: the form of a fast typist needs no other.
 * Reading pauses while a message waits, until its turn comes.
 */
export async function serveForm(ctx: Ctx, socket: WebSocketConnection, form: ParameterForm): Promise<void> {
  const gone = new AbortController();
  const stopWatching = whileAllowed(ctx, form.permission, () => socket.close(1008, 'not allowed any more'));
  let waiting: string | undefined = '{"id":-1}';
  let working = false;
  let wake = () => {};
  watchSilence(socket, {
    pingMs: PING_MS,
    busy: () => working || waiting !== undefined || socket.bufferedBytes > 0,
    end: (why) => socket.destroy(why),
  });
  socket.on('text', (text) => {
    waiting = text;
    socket.pause();
    wake();
  });
  socket.on('binary', () => socket.close(1003, 'send text messages'));
  socket.on('drain', () => wake());
  socket.once('close', () => {
    gone.abort();
    wake();
  });
  const answerNewest = async () => {
    // newer messages replace the one that waits. The second turn of the event loop reads what has arrived
    socket.resume();
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    const text = waiting;
    waiting = undefined;
    socket.resume();
    if (text === undefined || !socket.open) return;
    let request: DynamicParametersRequest;
    try {
      request = parse(text);
    } catch (err) {
      socket.close(1008, errorText(err));
      return;
    }
    working = true;
    try {
      const answer = await form.answer(request, gone.signal);
      socket.sendText(JSON.stringify(answer));
    } finally {
      working = false;
    }
  };
  try {
    while (socket.open) {
      if (waiting === undefined || socket.bufferedBytes > MAX_UNSENT) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      // parsing and answering take the main thread, so a person has one message in work, however many forms are open
      await inTurn(`form ${ctx.actor.kind === 'user' ? ctx.actor.id : ''}`, answerNewest);
    }
  } catch (err) {
    if (ctx.work.evaluation.closed) socket.close(1012, 'the server is shutting down');
    else {
      ctx.log.warn('a parameter form failed', { err: errorText(err) });
      socket.close(1011, 'internal error');
    }
  } finally {
    stopWatching();
  }
}
