import { DynamicParametersRequest } from '@platform/contract';
import { AppError, errorText } from '@platform/kit';
import type { WebSocketConnection } from '@platform/wire/websocket';
import { whileAllowed } from '../app/allowed.ts';
import type { Ctx } from '../app/context.ts';
import type { ParameterForm } from '../app/dynamic-parameters/form.ts';
import { checkJsonSize, parseLoosely, tidyBody } from './input.ts';
import { validatorCompiler } from './validate.ts';
import { zeroReader } from './zero-values.ts';

const PING_MS = 15_000;
/** The most bytes of answers that wait for a slow reader. */
const MOST_UNSENT = 1024 * 1024;

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
  checkJsonSize(bytes);
  const request = parseLoosely(bytes);
  tidyBody(request, true);
  readZeroValues(request);
  if (validate(request) !== true)
    throw new AppError('invalid', 'A message must be a JSON object with id, inputs and owner_id.');
  return request as DynamicParametersRequest;
}

/**
 * Answers each message with the parameters as they are with its values, and begins with an answer for no values. While
 * an answer is computed, only the newest waiting message is kept: the form of a fast typist needs no other.
 */
export async function serveForm(ctx: Ctx, socket: WebSocketConnection, form: ParameterForm): Promise<void> {
  const gone = new AbortController();
  const stopWatching = whileAllowed(ctx, form.permission, () => socket.close(1008, 'not allowed any more'));
  const ping = setInterval(() => socket.ping(), PING_MS);
  let waiting: DynamicParametersRequest | undefined = { id: -1 };
  let wake = () => {};
  socket.on('text', (text) => {
    try {
      waiting = parse(text);
      wake();
    } catch (err) {
      socket.close(1008, errorText(err));
    }
  });
  socket.on('binary', () => socket.close(1003, 'send text messages'));
  socket.on('drain', () => wake());
  socket.once('close', () => {
    gone.abort();
    wake();
  });
  try {
    while (socket.open) {
      if (waiting === undefined || socket.bufferedBytes > MOST_UNSENT) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      const request: DynamicParametersRequest = waiting;
      waiting = undefined;
      const answer = await form.answer(request, gone.signal);
      socket.sendText(JSON.stringify(answer));
    }
  } catch (err) {
    ctx.log.warn('a parameter form failed', { err: errorText(err) });
    socket.close(1011, 'internal error');
  } finally {
    clearInterval(ping);
    stopWatching();
  }
}
