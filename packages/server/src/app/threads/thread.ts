// The script of a worker thread: see pool.ts.
import { constants, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { AppError } from '@ropewalk/kit';
import { type Message, transferable, type Verdict } from './protocol.ts';
import { tasks } from './tasks.ts';

const port = parentPort!;

// Only Linux has priorities of single threads. With a lower one, expensive input of one person leaves the processor to
// the thread that answers requests.
if (process.platform === 'linux') {
  try {
    setPriority(0, constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // some sandboxes forbid it
  }
}

async function run({ name, input }: Message): Promise<Verdict> {
  try {
    return { value: await (tasks[name] as (of: typeof input) => unknown)(input) };
  } catch (err) {
    if (err instanceof AppError) {
      const { code, message, detail, validations } = err;
      return { error: { code, message, ...(detail ? { detail } : {}), ...(validations ? { validations } : {}) } };
    }
    // of nesting too deep for the other checks
    if (err instanceof RangeError)
      return { error: { code: 'invalid', message: `The input is too large: ${err.message}.` } };
    throw err;
  }
}

port.on('message', async (message: Message) => {
  const verdict = await run(message);
  port.postMessage(verdict, transferable('value' in verdict ? verdict.value : undefined));
});
port.postMessage('ready');
