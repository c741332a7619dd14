import { run } from './run.ts';

const interrupted = new AbortController();
// A command that does not listen is ended by the second signal at the latest.
process.on('SIGINT', () => {
  if (interrupted.signal.aborted) process.exit(130);
  interrupted.abort();
});
process.stdout.on('error', (err: NodeJS.ErrnoException) => {
  // the reader, `head` say, has what it wanted
  if (err.code === 'EPIPE') process.exit(0);
});

const code = await run({
  argv: process.argv.slice(2),
  env: process.env,
  io: { stdin: process.stdin, stdout: process.stdout, stderr: process.stderr },
  signal: interrupted.signal,
});
process.stdout.write('', () => process.exit(code));
