import { createInterface } from 'node:readline';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../framework/context.ts';
import { write } from '../framework/io.ts';
import { terminalText } from '../framework/terminal-text.ts';

export interface Question {
  text: string;
  /** The value of an empty answer. */
  fallback?: string;
  /** How to answer without a terminal, such as `set --username`. */
  instead?: string;
  /** The whole error without a terminal, instead of `text: instead`. */
  missing?: string;
  secret?: boolean;
  check?: (answer: string) => string | undefined | Promise<string | undefined>;
}

/** The error of a question that nobody can answer. */
function without(text: string, instead = ''): string {
  return `${text}${text.endsWith('?') ? '' : ':'} ${instead}`;
}

/** Asks until the answer passes the check. @throws AppError `invalid` without a terminal. */
export async function ask(ctx: Context, question: Question): Promise<string> {
  if (!ctx.interactive) throw new AppError('invalid', question.missing ?? without(question.text, question.instead));
  for (;;) {
    const suffix = question.fallback === undefined || question.fallback === '' ? '' : ` (${question.fallback})`;
    const answer = (await readLine(ctx, `> ${question.text}${suffix}: `, question.secret ?? false)).trim();
    const value = answer === '' && question.fallback !== undefined ? question.fallback : answer;
    const wrong = await question.check?.(value);
    if (wrong === undefined) return value;
    write(ctx.io.stderr, `  ${wrong}\n`);
  }
}

/** Asks a yes-or-no question. @throws AppError `canceled` for no, `invalid` without a terminal. */
export async function confirm(ctx: Context, text: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!ctx.interactive) {
    throw new AppError('invalid', `${text} Cannot ask without a terminal. To answer yes, use --yes.`);
  }
  const answer = (await readLine(ctx, `> ${text} (yes/no) `, false)).trim();
  if (!/^y(es)?$/i.test(answer)) throw new AppError('canceled', 'Canceled. Nothing was changed.');
}

/** Asks for one of several options, by number or name. */
export async function choose(
  ctx: Context,
  text: string,
  options: readonly { value: string; label: string }[],
  instead: string,
): Promise<string> {
  if (!ctx.interactive) throw new AppError('invalid', without(text, instead));
  for (const [i, { label }] of options.entries()) write(ctx.io.stderr, `  ${i + 1}. ${label}\n`);
  const find = (answer: string) =>
    options.find(({ value }) => value === answer) ?? (/^\d+$/.test(answer) ? options[Number(answer) - 1] : undefined);
  const answer = await ask(ctx, {
    text,
    instead,
    check: (given) => (find(given) ? undefined : 'Enter a number or a name from the list.'),
  });
  return find(answer)!.value;
}

async function readLine(ctx: Context, prompt: string, secret: boolean): Promise<string> {
  const { stdin, stderr } = ctx.io;
  const lines = createInterface({
    input: stdin,
    output: secret ? undefined : (stderr as NodeJS.WritableStream),
    terminal: secret,
    historySize: 0,
  });
  const ended = new AbortController();
  let answered = false;
  try {
    return await new Promise<string>((resolve, reject) => {
      const stop = () => reject(new AppError('canceled', 'Canceled. Nothing was changed.'));
      ctx.signal.addEventListener('abort', stop, { once: true, signal: ended.signal });
      // the terminal is in raw mode, where Ctrl+C is a key: turn it into a signal
      lines.once('SIGINT', () => process.kill(process.pid, 'SIGINT'));
      lines.once('close', stop);
      lines.once('line', (line) => {
        answered = true;
        resolve(line);
      });
      if (secret) write(stderr, prompt);
      else {
        lines.setPrompt(terminalText(prompt));
        lines.prompt();
      }
    });
  } finally {
    ended.abort();
    lines.removeAllListeners('close');
    lines.close();
    // the terminal has not shown a line break
    if (secret || !answered) write(stderr, '\n');
  }
}
