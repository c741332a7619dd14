import { createWriteStream, openSync } from 'node:fs';
import { AppError, errorText } from './errors.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFields = Record<string, unknown>;

/** Structured log. Fields hold ids and names, never tokens, keys, state or sensitive parameters. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A logger that adds these fields to every line. */
  child(fields: LogFields): Logger;
}

const RANK: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };

/** Where lines go. `human` is one line of text; `json` one object a line. */
export interface LogSink {
  format: 'human' | 'json';
  write(line: string): void;
}

function plain(value: unknown): unknown {
  if (value instanceof Error) return value.message;
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'bigint') return value.toString();
  return value;
}

/** Control characters (with DEL and the C1 set) and marks of direction: they would act on the terminal of a reader. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const ACTING = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const shown = (text: string) =>
  text.replaceAll(ACTING, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

function human(time: Date, level: LogLevel, message: string, fields: LogFields): string {
  let out = `${time.toISOString()} [${level}] ${shown(message)}`;
  for (const [key, raw] of Object.entries(fields)) {
    const value = plain(raw);
    if (value === undefined) continue;
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    out += ` ${key}=${shown(/[\s"=]/.test(text) || text === '' ? JSON.stringify(text) : text)}`;
  }
  return out;
}

function json(time: Date, level: LogLevel, message: string, fields: LogFields): string {
  const out: LogFields = { ts: time.toISOString(), level, msg: message };
  for (const [key, raw] of Object.entries(fields)) if (raw !== undefined) out[key] = plain(raw);
  return shown(JSON.stringify(out));
}

export interface LoggerOptions {
  level?: LogLevel;
  sinks?: LogSink[];
}

export function createLogger(options: LoggerOptions = {}, fields: LogFields = {}): Logger {
  const sinks = options.sinks ?? [stderrSink()];
  const least = RANK[options.level ?? 'info'];
  const emit = (level: LogLevel, message: string, extra?: LogFields) => {
    if (RANK[level] < least) return;
    const time = new Date();
    const all = extra ? { ...fields, ...extra } : fields;
    for (const sink of sinks) sink.write((sink.format === 'json' ? json : human)(time, level, message, all));
  };
  return {
    debug: (m, f) => emit('debug', m, f),
    info: (m, f) => emit('info', m, f),
    warn: (m, f) => emit('warn', m, f),
    error: (m, f) => emit('error', m, f),
    child: (more) => createLogger({ ...options, sinks }, { ...fields, ...more }),
  };
}

export function stderrSink(format: 'human' | 'json' = 'human'): LogSink {
  return { format, write: (line) => void process.stderr.write(`${line}\n`) };
}

/**
 * A sink for a path as the published options name it: a file, /dev/stderr, /dev/stdout; empty means none. A file that can
 * not be written any more (a full disk) is told once on stderr, where the lines then go.
 * @throws AppError `invalid` for a file that can not be opened.
 */
export function pathSink(path: string, format: 'human' | 'json'): LogSink | undefined {
  if (path === '' || path === '/dev/null') return undefined;
  if (path === '/dev/stderr') return stderrSink(format);
  if (path === '/dev/stdout') return { format, write: (line) => void process.stdout.write(`${line}\n`) };
  let fd: number;
  try {
    fd = openSync(path, 'a', 0o600);
  } catch (err) {
    throw new AppError('invalid', `The log file ${path} can not be opened: ${errorText(err)}`, { cause: err });
  }
  const file = createWriteStream(path, { fd });
  let broken = false;
  file.on('error', (err) => {
    if (!broken) process.stderr.write(`The log file ${path} can not be written any more: ${errorText(err)}\n`);
    broken = true;
  });
  return { format, write: (line) => void (broken ? process.stderr : file).write(`${line}\n`) };
}

/** Drops everything: for tests and for commands whose output is their own. */
export const silentLogger: Logger = createLogger({ sinks: [] });
