import { run } from './run.ts';

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
});

const { PLATFORM_RUN_WHOLE } = globalThis;

run({
  argv: process.argv.slice(2),
  env: process.env,
  io: {
    // loads when it is first wanted: for many commands never
    get stdin() {
      return process.stdin;
    },
    stdout: process.stdout,
    stderr: process.stderr,
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
