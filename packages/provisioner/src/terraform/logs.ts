import { ownValue } from '@ropewalk/kit/own-value';
import { LogLevel } from '@ropewalk/wire/proto/provisioner';
import { type LogRecord, readRecords } from '../runner/tail.ts';

export interface LogLine {
  level: LogLevel;
  output: string;
  /** Unix milliseconds. */
  at: number;
}

/** The fields of a line of terraform's JSON stream that the daemon uses. */
export interface TerraformLine {
  '@level'?: string;
  '@message'?: string;
  '@timestamp'?: string;
  type?: string;
  /** Of a `change_summary`: after a plan, and after a successful apply. */
  changes?: { operation?: string };
  hook?: {
    resource?: { addr?: string; resource_type?: string; implied_provider?: string };
    action?: string;
    id_value?: string;
    provisioner?: string;
  };
  diagnostic?: {
    severity?: string;
    summary?: string;
    detail?: string;
    address?: string;
    range?: { filename?: string; start?: { line?: number; column?: number } };
    snippet?: { context?: string | null; code?: string; start_line?: number };
  };
}

const LEVELS: Record<string, LogLevel> = {
  trace: LogLevel.TRACE,
  debug: LogLevel.DEBUG,
  info: LogLevel.INFO,
  warn: LogLevel.WARN,
  warning: LogLevel.WARN,
  error: LogLevel.ERROR,
};

/** Parses a line of terraform's JSON stream. Undefined for any other line. */
export function parseTerraformLine(text: string): TerraformLine | undefined {
  if (!text.startsWith('{')) return undefined;
  try {
    const value = JSON.parse(text) as TerraformLine;
    return typeof value['@level'] === 'string' || typeof value['@message'] === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

function diagnosticLines(diagnostic: NonNullable<TerraformLine['diagnostic']>): string[] {
  const out: string[] = [];
  const { range, snippet, address, detail } = diagnostic;
  const start = range?.start?.line;
  if (range?.filename) {
    const inside = address ? `, in ${address}` : snippet?.context ? `, in ${snippet.context}` : '';
    out.push(`  on ${range.filename} line ${start ?? '?'}${inside}:`);
  }
  const first = snippet?.start_line ?? start ?? 1;
  for (const [i, line] of (snippet?.code ?? '').split('\n').entries())
    if (line !== '') out.push(`  ${first + i}: ${line}`);
  if (out.length > 0) out.push('');
  for (const line of (detail ?? '').split('\n')) out.push(line);
  while (out.length > 0 && out.at(-1) === '') out.pop();
  return out;
}

/** Converts a record of plan or apply to lines of the build's log. Empty if the record says nothing. */
export function convertRecord(record: Omit<LogRecord, 'next'>): LogLine[] {
  const { kind, at, text } = record;
  if (kind === 'n') return [{ level: LogLevel.WARN, output: text, at }];
  const line = parseTerraformLine(text);
  if (kind === 'e') {
    if (!line) return text.trim() === '' ? [] : [{ level: LogLevel.ERROR, output: text, at }];
    const level = ownValue(LEVELS, line['@level'] ?? '') ?? LogLevel.INFO;
    if (level === LogLevel.TRACE) return [];
    return [{ level: level === LogLevel.INFO ? LogLevel.DEBUG : level, output: line['@message'] ?? '', at }];
  }
  if (!line) return text.trim() === '' ? [] : [{ level: LogLevel.INFO, output: text, at }];
  const stamp = Date.parse(line['@timestamp'] ?? '');
  const when = Number.isNaN(stamp) ? at : stamp;
  const known = ownValue(LEVELS, line['@level'] ?? '');
  const out: LogLine[] = [{ level: known ?? LogLevel.INFO, output: line['@message'] ?? '', at: when }];
  if (known === undefined)
    out.push({ level: LogLevel.WARN, output: `unknown log level ${JSON.stringify(line['@level'] ?? '')}`, at: when });
  if (line.diagnostic) {
    const level = ownValue(LEVELS, line.diagnostic.severity ?? '') ?? LogLevel.ERROR;
    for (const output of diagnosticLines(line.diagnostic)) out.push({ level, output, at: when });
  }
  return out;
}

/** The number of lines in the build's log that come from a run's log before `end`. Later lines count on from it. */
export async function countLines(path: string, end: number): Promise<number> {
  if (end === 0) return 0;
  let count = 0;
  for await (const record of readRecords(path, 0)) {
    if (record.next > end) break;
    count += convertRecord(record).length;
  }
  return count;
}

/** The place and text of a diagnostic with severity "error", for the job's error. Undefined for any other line. */
export function errorSummary(line: TerraformLine): string | undefined {
  const { diagnostic } = line;
  if (diagnostic?.severity !== 'error') return undefined;
  const { range, summary } = diagnostic;
  const place = range?.filename ? `${range.filename}:${range.start?.line ?? '?'}: ` : '';
  const detail = diagnostic.detail?.split('\n')[0];
  return `${place}${summary}${detail ? `: ${detail}` : ''}`;
}

const MAX_PRINTED = 20;
const MAX_DETAIL = 500;
/** The text that Terraform prints before the actual errors. */
const PREAMBLE = /^Terraform encountered problems during initiali[sz]ation|^There are some problems with the/;

const PLACE = /^ {2}on (.+?) line (\d+)(?:,|:)/;

/** Reads errors of commands without a JSON stream: `Error: <summary>`, the indented location, and the detail. */
export class PrintedErrors {
  readonly errors: string[] = [];
  /** The detail of the current error. Undefined between errors. */
  #detail: string | undefined;

  take(line: string): void {
    const summary = /^Error: (.+)/.exec(line)?.[1];
    if (summary !== undefined) {
      const isKept = !PREAMBLE.test(summary) && this.errors.length < MAX_PRINTED;
      this.#detail = isKept ? '' : undefined;
      if (isKept) this.errors.push(summary);
    } else if (this.#detail === '' && PLACE.test(line)) {
      const [, file, at] = PLACE.exec(line)!;
      this.errors.push(`${file}:${at}: ${this.errors.pop()}`);
    } else if (this.#detail === '' && /^\S/.test(line)) {
      this.#append(`: ${line}`);
    } else if (this.#detail) {
      // Terraform wraps paragraphs. The first one says what is wrong.
      if (/^\S/.test(line) && this.#detail.length < MAX_DETAIL) this.#append(` ${line}`);
      else this.#detail = undefined;
    }
  }

  #append(text: string): void {
    this.errors[this.errors.length - 1] += text;
    this.#detail += text;
  }
}
