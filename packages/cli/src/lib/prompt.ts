import { createInterface } from 'node:readline';
import { AppError } from '@platform/kit/errors';
import type { Context } from '../framework/context.ts';

export interface Question {
  text: string;
  /** What an empty answer means. */
  fallback?: string;
  /** How to answer without a terminal, such as `give --username`. */
  instead?: string;
  /** The whole error without a terminal, in place of that. */
  missing?: string;
  secret?: boolean;
  check?: (answer: string) => string | undefined | Promise<string | undefined>;
}

/** Asks until the answer passes the check. @throws AppError where nobody can answer. */
export async function ask(ctx: Context, question: Question): Promise<string> {
  if (!ctx.interactive) throw new AppError('invalid', question.missing ?? `${question.text}: ${question.instead}`);
  for (;;) {
    const suffix = question.fallback === undefined || question.fallback === '' ? '' : ` (${question.fallback})`;
    const answer = (await readLine(ctx, `> ${question.text}${suffix}: `, question.secret ?? false)).trim();
    const value = answer === '' && question.fallback !== undefined ? question.fallback : answer;
    const wrong = await question.check?.(value);
    if (wrong === undefined) return value;
    ctx.io.stderr.write(`  ${wrong}\n`);
  }
}

/** Asks yes or no; `-y` is yes. @throws AppError 'canceled' for no, 'invalid' where nobody can answer. */
export async function confirm(ctx: Context, text: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!ctx.interactive) {
    throw new AppError('invalid', `${text} There is no terminal to ask on: say yes with --yes.`);
  }
  const answer = (await readLine(ctx, `> ${text} (yes/no) `, false)).trim();
  if (!/^y(es)?$/i.test(answer)) throw new AppError('canceled', 'Nothing was done.');
}

/** Lets one of the options be chosen by number or text. */
export async function choose(
  ctx: Context,
  text: string,
  options: readonly { value: string; label: string }[],
  instead: string,
): Promise<string> {
  if (!ctx.interactive) throw new AppError('invalid', `${text}: ${instead}`);
  for (const [i, { label }] of options.entries()) ctx.io.stderr.write(`  ${i + 1}. ${label}\n`);
  const find = (answer: string) =>
    options.find(({ value }) => value === answer) ?? (/^\d+$/.test(answer) ? options[Number(answer) - 1] : undefined);
  const answer = await ask(ctx, {
    text,
    instead,
    check: (given) => (find(given) ? undefined : 'Give a number or a name of the list.'),
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
      const stop = () => reject(new AppError('canceled', 'Nothing was done.'));
      ctx.signal.addEventListener('abort', stop, { once: true, signal: ended.signal });
      // the terminal is raw here, so that Ctrl+C is a key: make it what it is elsewhere
      lines.once('SIGINT', () => process.kill(process.pid, 'SIGINT'));
      lines.once('close', stop);
      lines.once('line', (line) => {
        answered = true;
        resolve(line);
      });
      if (secret) stderr.write(prompt);
      else {
        lines.setPrompt(prompt);
        lines.prompt();
      }
    });
  } finally {
    ended.abort();
    lines.removeAllListeners('close');
    lines.close();
    // Enter was not shown, or not pressed
    if (secret || !answered) stderr.write('\n');
  }
}
