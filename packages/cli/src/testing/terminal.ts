import { join } from 'node:path';
import { spawn } from '@lydell/node-pty';

const MAIN = join(import.meta.dirname, '../main.ts');

/** A command in a real terminal, as a person sees it. */
export interface Terminal {
  /** The lines on the screen and above it, without styles. */
  screen(): string[];
  /** Everything that the command wrote, escape sequences included. */
  raw(): string;
  write(text: string): void;
  resize(columns: number): void;
  exited: Promise<number>;
  kill(): void;
}

export function openTerminal(argv: readonly string[], env: NodeJS.ProcessEnv, columns = 80): Terminal {
  const pty = spawn(process.execPath, [MAIN, ...argv], {
    cols: columns,
    rows: 40,
    env: { PATH: process.env['PATH'], TERM: 'xterm-256color', ...env } as Record<string, string>,
  });
  let raw = '';
  pty.onData((text) => {
    raw += text;
  });
  return {
    screen: () => drawn(raw),
    raw: () => raw,
    write: (text) => pty.write(text),
    resize: (width) => pty.resize(width, 40),
    exited: new Promise((resolve) => pty.onExit(({ exitCode }) => resolve(exitCode))),
    kill: () => pty.kill(),
  };
}

/** Applies the sequences that the progress of a build uses: a new line, a return, cursor up, clear to the end. */
export function drawn(raw: string): string[] {
  const lines: string[][] = [[]];
  let row = 0;
  let column = 0;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: terminals are controlled by these
  for (const [part, count = '', command] of raw.matchAll(/\u001b\[([0-9;?]*)([A-Za-z])|[\s\S]/gu)) {
    if (command === 'A') row = Math.max(0, row - Number(count || 1));
    else if (command === 'J') {
      lines.length = row + 1;
      lines[row]!.length = Math.min(lines[row]!.length, column);
    } else if (part === '\r') column = 0;
    else if (part === '\n') {
      row++;
      lines[row] ??= [];
    } else if (command === undefined) {
      lines[row]![column] = part;
      column++;
    }
  }
  return lines.map((line) =>
    Array.from(line, (cell) => cell ?? ' ')
      .join('')
      .trimEnd(),
  );
}
