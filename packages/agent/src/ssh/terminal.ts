import type { PseudoTtyInfo, ServerChannel } from 'ssh2';
import { spawnTerminal } from '../terminal/spawn.ts';
import type { ProcessSpec } from '../workspace.ts';
import { pump } from './channel.ts';
import type { RunningProcess } from './process.ts';

/** node-pty has the terminal's name only after the program's environment is set, so a shell sets it first. */
const WITH_TTY = 'tty=$(tty) && export SSH_TTY="$tty"; exec "$@"';

function withTty(spec: ProcessSpec): ProcessSpec {
  // A shell would drop variables with other names.
  if (!Object.keys(spec.env).every((name) => /^[A-Za-z_]\w*$/.test(name))) return spec;
  return { ...spec, file: '/bin/sh', args: ['-c', WITH_TTY, 'sh', spec.file, ...spec.args] };
}

/** Runs a program in its own terminal. */
export async function startTerminal(
  channel: ServerChannel,
  spec: ProcessSpec,
  request: PseudoTtyInfo,
): Promise<RunningProcess> {
  // ssh2's declarations of the request lack the type.
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
