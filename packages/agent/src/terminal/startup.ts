import type { Duplex } from 'node:stream';
import { Lifecycle_State } from '@platform/wire/proto/agent';
import type { Lifecycle } from '../lifecycle.ts';
import type { TerminalInput, TerminalInputParser } from './input.ts';

const STARTING = [Lifecycle_State.CREATED, Lifecycle_State.STARTING];
const HINT = 'Their log: coder show --details <workspace>';
const WARNINGS = new Map([
  [Lifecycle_State.CREATED, 'The startup scripts still run; the workspace may be incomplete.'],
  [Lifecycle_State.STARTING, 'The startup scripts still run; the workspace may be incomplete.'],
  [Lifecycle_State.START_ERROR, `A startup script ended with an error; the workspace may be incomplete. ${HINT}`],
  [
    Lifecycle_State.START_TIMEOUT,
    `The startup scripts take longer than allowed; the workspace may be incomplete. ${HINT}`,
  ],
]);
const grey = (text: string) => `\x1b[2m${text}\x1b[0m\r\n`;

/**
 * Before a new terminal: waits for startup scripts, if they are to be waited for, visibly and with a way past it (any
 * key), and says what is amiss with them. Resolves with the last size that the viewer asked for meanwhile, and with
 * false where he has left. What he typed is dropped: it was not for the shell. Throws where he sends nonsense.
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
      grey('The startup scripts of this workspace still run: the shell opens when they have ended.') +
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
