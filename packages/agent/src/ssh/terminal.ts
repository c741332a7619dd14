import type { PseudoTtyInfo, ServerChannel } from 'ssh2';
import { spawnTerminal } from '../terminal/spawn.ts';
import type { ProcessSpec } from '../workspace.ts';
import { pump } from './channel.ts';
import type { RunningProcess } from './process.ts';

/** node-pty knows the terminal's name only when the program has its environment already: a shell sets it before. */
const WITH_TTY = 'tty=$(tty) && export SSH_TTY="$tty"; exec "$@"';

function withTty(spec: ProcessSpec): ProcessSpec {
  // names that are none to a shell would be lost
  if (!Object.keys(spec.env).every((name) => /^[A-Za-z_]\w*$/.test(name))) return spec;
  return { ...spec, file: '/bin/sh', args: ['-c', WITH_TTY, 'sh', spec.file, ...spec.args] };
}

/** Runs a program in a terminal of its own. */
export async function startTerminal(
  channel: ServerChannel,
  spec: ProcessSpec,
  request: PseudoTtyInfo,
): Promise<RunningProcess> {
  // The type is missing from the declarations of what the request holds.
  const { term } = request as PseudoTtyInfo & { term?: string };
  const terminal = await spawnTerminal(withTty(spec), request, term);
  const { socket } = terminal;
  const output = pump(socket, channel, () => {});
  channel.on('data', (chunk: Buffer) => {
    if (!terminal.over && !socket.destroyed && !socket.write(chunk)) {
      channel.pause();
      socket.once('drain', () => channel.resume());
    }
  });
  return {
    ended: terminal.exited.then(async (exit) => {
      await output;
      return exit;
    }),
    signal: terminal.signal,
    resize: (cols, rows) => terminal.resize({ cols, rows }),
    hangUp: terminal.hangUp,
  };
}
