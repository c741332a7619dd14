import { fstatSync, statSync } from 'node:fs';
import { devNull } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { endOnCrash } from '@ropewalk/kit/crash';
import { DEFAULT_CONFIG_DIR } from './framework/globals.ts';
import { expandHome } from './lib/expand-home.ts';
import { run } from './run.ts';

/** The null device has nothing to read, so that Node need not start the threads that read files. */
function standardInput(): typeof process.stdin {
  try {
    const input = fstatSync(0);
    if (input.isCharacterDevice() && input.rdev === statSync(devNull).rdev) {
      const nothing = new Readable({ read: () => void nothing.push(null) });
      return nothing as typeof process.stdin;
    }
  } catch {
    // stdin is closed, or the system has no device numbers
  }
  return process.stdin;
}

endOnCrash({
  program: 'coder',
  folder: join(expandHome(process.env['CODER_CONFIG_DIR'] || DEFAULT_CONFIG_DIR, process.env), 'crashes'),
});

const interrupted = new AbortController();
// The second signal ends a command that ignores the first one.
const onInterrupt = () => {
  if (interrupted.signal.aborted) process.exit(130);
  interrupted.abort();
};
process.on('SIGINT', onInterrupt);
process.stdout.on('error', (err: NodeJS.ErrnoException) => {
  // the reader, such as `head`, has read enough
  if (err.code === 'EPIPE') process.exit(0);
  standardError().write(`error: Could not write the output: ${err.message}\n`, () => process.exit(1));
});
/** A command continues when its notes cannot be written. */
function standardError(): typeof process.stderr {
  if (process.stderr.listenerCount('error') === 0) process.stderr.on('error', () => {});
  return process.stderr;
}

let stdin: typeof process.stdin | undefined;

run({
  argv: process.argv.slice(2),
  env: process.env,
  io: {
    // loaded on first use: many commands use neither
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
}).then((code) => process.stdout.write('', () => process.exit(code)));
