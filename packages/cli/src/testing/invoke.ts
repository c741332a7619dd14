import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { run } from '../run.ts';

export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

/**
 * Runs a command line in this process, in a separate config directory, without a terminal. `stdin` is the whole input, or
 * a list with the answer to each question. `onText` receives the text so far of stdout or stderr each time that the command
 * prints. Aborting `signal` acts like SIGINT.
 */
export async function invoke(
  argv: string[],
  env: NodeJS.ProcessEnv = {},
  stdin: string | readonly string[] = '',
  onText: (soFar: string) => void = () => {},
  signal = new AbortController().signal,
): Promise<Outcome> {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const input = new PassThrough();
  const answers = typeof stdin === 'string' ? [] : [...stdin];
  if (typeof stdin === 'string') input.end(stdin);
  /** Answers a question once it is asked: a prompt reads all that is there. */
  const answer = (part: string) => {
    if (part.includes('> ') && answers.length > 0) setImmediate(() => input.write(`${answers.shift()}\n`));
  };
  const texts = [stdout, stderr].map(async (stream) => {
    let text = '';
    for await (const part of stream) {
      text += String(part);
      answer(String(part));
      onText(text);
    }
    return text;
  });
  const home = env['HOME'] ?? mkdtempSync(join(tmpdir(), 'cli-'));
  const code = await run({
    argv,
    env: { HOME: home, CODER_CONFIG_DIR: join(home, 'config'), ...env },
    io: { stdin: input, stdout, stderr },
    signal,
  });
  stdout.end();
  stderr.end();
  const [out, err] = await Promise.all(texts);
  if (env['HOME'] === undefined) rmSync(home, { recursive: true, force: true });
  return { code, stdout: out!, stderr: err! };
}
