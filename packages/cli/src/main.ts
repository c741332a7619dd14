import { fstatSync, statSync } from 'node:fs';
import { devNull } from 'node:os';
import { Readable } from 'node:stream';
import { run } from './run.ts';

/** Where stdin is the null device there is nothing to read, and no need for the threads with which files are read. */
function standardInput(): typeof process.stdin {
  try {
    const input = fstatSync(0);
    if (input.isCharacterDevice() && input.rdev === statSync(devNull).rdev) {
      const nothing = new Readable({ read: () => void nothing.push(null) });
      return nothing as typeof process.stdin;
    }
  } catch {
    // closed, or a system without such files
  }
  return process.stdin;
}

const interrupted = new AbortController();
// A command that does not listen is ended by the second signal at the latest.
const onInterrupt = () => {
  if (interrupted.signal.aborted) process.exit(130);
  interrupted.abort();
};
process.on('SIGINT', onInterrupt);
process.stdout.on('error', (err: NodeJS.ErrnoException) => {
  // the reader, `head` say, has what it wanted
  if (err.code === 'EPIPE') process.exit(0);
  standardError().write(`error: Could not write the output: ${err.message}\n`, () => process.exit(1));
});
/** Notes that cannot be written end no command. */
function standardError(): typeof process.stderr {
  if (process.stderr.listenerCount('error') === 0) process.stderr.on('error', () => {});
  return process.stderr;
}

const { PLATFORM_RUN_WHOLE } = globalThis;
let stdin: typeof process.stdin | undefined;

run({
  argv: process.argv.slice(2),
  env: process.env,
  io: {
    // these load when they are first wanted: for many commands never
    get stdin() {
      stdin ??= standardInput();
      return stdin;
    },
    stdout: process.stdout,
    get stderr() {
      return standardError();
    },
  },
  signal: interrupted.signal,
}).then(
  (code) => process.stdout.write('', () => process.exit(code)),
  (err) => {
    process.off('SIGINT', onInterrupt);
    if (err !== PLATFORM_RUN_WHOLE) throw err;
    PLATFORM_RUN_WHOLE!();
  },
);
