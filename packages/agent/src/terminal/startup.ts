import type { Duplex } from 'node:stream';
import { Lifecycle_State } from '@ropewalk/wire/proto/agent';
import type { Lifecycle } from '../lifecycle.ts';
import type { TerminalInput, TerminalInputParser } from './input.ts';

const STARTING = [Lifecycle_State.CREATED, Lifecycle_State.STARTING];
const HINT = 'Their log: coder show --details <workspace>';
const WARNINGS = new Map([
  [Lifecycle_State.CREATED, 'The startup scripts are still running. The workspace may be incomplete.'],
  [Lifecycle_State.STARTING, 'The startup scripts are still running. The workspace may be incomplete.'],
  [Lifecycle_State.START_ERROR, `A startup script failed. The workspace may be incomplete. ${HINT}`],
  [
    Lifecycle_State.START_TIMEOUT,
    `The startup scripts take longer than allowed. The workspace may be incomplete. ${HINT}`,
  ],
]);
const grey = (text: string) => `\x1b[2m${text}\x1b[0m\r\n`;

/**
 * Waits for startup scripts before a new terminal opens, if the template requires it. Shows the wait, lets any key skip
 * it, and reports script failures. Resolves with the last size that the viewer requested meanwhile, or with false if
 * the viewer has left. Drops typed input: it was not for the shell. Throws on invalid input.
 */
export async function beforeTerminal(
  stream: Duplex,
  parser: TerminalInputParser,
  lifecycle: Lifecycle,
  wait: boolean,
): Promise<TerminalInput | false> {
  const size: TerminalInput = {};
  if (wait && STARTING.includes(lifecycle.state)) {
    stream.write(
      grey('The startup scripts of this workspace are still running. The shell opens when they have ended.') +
        grey('Press any key to open it now.'),
    );
    const here = await untilStarted(stream, parser, lifecycle, size);
    if (!here) return false;
  }
  const warning = WARNINGS.get(lifecycle.state);
  if (warning) stream.write(`\x1b[33m${warning}\x1b[0m\r\n`);
  return size;
}

function untilStarted(
  stream: Duplex,
  parser: TerminalInputParser,
  lifecycle: Lifecycle,
  size: TerminalInput,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const settle = (end: () => void) => {
      off();
      stream.off('data', input);
      stream.off('close', left);
      stream.off('end', left);
      stream.pause();
      end();
    };
    const left = () => settle(() => resolve(false));
    const off = lifecycle.onChange((state) => {
      if (!STARTING.includes(state)) settle(() => resolve(true));
    });
    const input = (chunk: Buffer) => {
      let inputs: TerminalInput[];
      try {
        inputs = parser.write(chunk);
      } catch (err) {
        return settle(() => reject(err as Error));
      }
      for (const { data, ...sides } of inputs) Object.assign(size, sides);
      if (inputs.some(({ data }) => data !== undefined)) settle(() => resolve(true));
    };
    stream.on('close', left);
    stream.on('end', left);
    stream.on('data', input);
  });
}
