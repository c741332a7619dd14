import { writeSync } from 'node:fs';
import { errorText } from './errors.ts';

/** Begins the line that a helper process writes to its standard output, for the server that started it. */
const MARK = 'crashed ';

/** Reports on standard output why this process ends. Does nothing if its reader is gone. */
export function reportCrash(err: unknown): void {
  try {
    writeSync(1, `${MARK}${errorText(err).replaceAll('\n', ' ')}\n`);
  } catch {
    // the reader is gone
  }
}

/** The reason in a line of a helper's standard output. Undefined for any other line. */
export function crashReason(line: string): string | undefined {
  return line.startsWith(MARK) ? line.slice(MARK.length) : undefined;
}
