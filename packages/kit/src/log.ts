import { AppError, errorText } from './errors.ts';
import { fileOutput, type LogOutput, type LossNotice, standardOutput } from './log-output.ts';
import { visible } from './visible.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFields = Record<string, unknown>;

/** Structured log. Fields hold ids and names, never tokens, keys, state or sensitive parameters. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Whether lines of this level are kept. Frequent work asks before it prepares a line. */
  keeps(level: LogLevel): boolean;
  /** Returns a logger that adds these fields to every line. */
  child(fields: LogFields): Logger;
}

const RANK: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };

/** A destination of lines. `human` is one line of text, `json` one object per line. */
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

/** Never throws for a log line: leaves out what JSON cannot represent (a cycle). */
function asJson(value: unknown, otherwise: (why: string) => unknown = (why) => why): string {
  try {
    return JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? part.toString() : part)) ?? String(value);
  } catch (err) {
    return JSON.stringify(otherwise(`not shown: ${errorText(err).split('\n')[0]}`));
  }
}

function human(time: Date, level: LogLevel, message: string, fields: LogFields): string {
  let out = `${time.toISOString()} [${level}] ${visible(message)}`;
  for (const [key, raw] of Object.entries(fields)) {
    const value = plain(raw);
    if (value === undefined) continue;
    const text = typeof value === 'string' ? value : asJson(value);
    out += ` ${key}=${visible(/[\s"=]/.test(text) || text === '' ? JSON.stringify(text) : text)}`;
  }
  return out;
}

function json(time: Date, level: LogLevel, message: string, fields: LogFields): string {
  const out: LogFields = { ts: time.toISOString(), level, msg: message };
  for (const [key, raw] of Object.entries(fields)) if (raw !== undefined) out[key] = plain(raw);
  return visible(asJson(out, (fields) => ({ ts: out['ts'], level, msg: message, fields })));
}

export interface LoggerOptions {
  level?: LogLevel;
  sinks?: LogSink[];
}

/** Creates a logger that adds `fields` to every line. Default: level info, human-readable, to stderr. */
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
    keeps: (level) => RANK[level] >= least && sinks.length > 0,
    child: (more) => createLogger({ ...options, sinks }, { ...fields, ...more }),
  };
}

/** Formats the notice about lost lines like other lines. */
function lossNotice(format: 'human' | 'json', shape: (line: string) => string): LossNotice {
  const write = format === 'json' ? json : human;
  return (lost, why) =>
    shape(write(new Date(), 'warn', `${lost} log ${lost === 1 ? 'line was' : 'lines were'} lost: ${why}`, {}));
}

const asItIs = (line: string) => line;

function standardSink(fd: 1 | 2, format: 'human' | 'json', shape: (line: string) => string): LogSink {
  const output = standardOutput(fd, lossNotice(format, shape));
  return { format, write: (line) => void output.write(shape(line)) };
}

export function stderrSink(format: 'human' | 'json' = 'human'): LogSink {
  return standardSink(2, format, asItIs);
}

/**
 * Creates a sink for a path as upstream's options name it: a file, /dev/stderr or /dev/stdout. Returns none for an
 * empty path. `shape` gives each line its final form. While a file cannot be written (a full disk) its lines go to
 * stderr. When it can be written again, a notice counts the lines that it lacks. After a rotation the path is opened
 * again within a second. @throws AppError `invalid` for a file that cannot be opened.
 */
export function pathSink(
  path: string,
  format: 'human' | 'json',
  shape: (line: string) => string = asItIs,
): LogSink | undefined {
  if (path === '' || path === '/dev/null') return undefined;
  if (path === '/dev/stderr') return standardSink(2, format, shape);
  if (path === '/dev/stdout') return standardSink(1, format, shape);
  const notice = lossNotice(format, shape);
  const instead = standardOutput(2, notice);
  const onFailure = (why: string) =>
    void instead.write(`Cannot write the log file "${path}": ${why}. Its lines go to stderr meanwhile.`);
  let file: LogOutput;
  try {
    file = fileOutput(path, { notice, onFailure });
  } catch (err) {
    throw new AppError('invalid', `Cannot open the log file "${path}": ${errorText(err)}`, { cause: err });
  }
  return {
    format,
    write(line) {
      const whole = shape(line);
      if (!file.write(whole)) instead.write(whole);
    },
  };
}

/** Drops everything: for tests and for commands that write their own output. */
export const silentLogger: Logger = createLogger({ sinks: [] });
