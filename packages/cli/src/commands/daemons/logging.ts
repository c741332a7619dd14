import { AppError, createLogger, type Logger, type LogLevel, type LogSink, pathSink } from '@ropewalk/kit';
import { logCrashes } from '@ropewalk/kit/crash';
import type { Config } from '@ropewalk/server';
import type { FlagDefs, ValuesOf } from '../../framework/types.ts';
import { outliveOutputs } from './outputs.ts';

const SEVERITY: Record<LogLevel, string> = { debug: 'DEBUG', info: 'INFO', warn: 'WARNING', error: 'ERROR' };

/** The flags for the logs of a daemon. The names of the environment variables begin with `prefix`. */
export function logFlags<const P extends string>(prefix: P) {
  return {
    'log-human': {
      type: 'string',
      env: `${prefix}_LOGGING_HUMAN`,
      default: '/dev/stderr',
      description: 'Output for human-readable logs: a file, /dev/stdout or /dev/stderr.',
    },
    'log-json': {
      type: 'string',
      env: `${prefix}_LOGGING_JSON`,
      description: 'Output for logs as JSON lines: a file, /dev/stdout or /dev/stderr. Default: none.',
    },
    'log-stackdriver': {
      type: 'string',
      env: `${prefix}_LOGGING_STACKDRIVER`,
      description:
        'Output for logs in the format of Google Cloud Logging: a file, /dev/stdout or /dev/stderr. Default: none.',
    },
    'log-filter': {
      type: 'string[]',
      env: `${prefix}_LOG_FILTER`,
      description:
        'Log debug lines that match one of these regular expressions. With .*, all of them. Default: no debug lines.',
    },
  } as const satisfies FlagDefs;
}

export interface LogOptions {
  human: string;
  json: string;
  stackdriver?: string;
  filter?: readonly string[];
  verbose: boolean;
}

/**
 * The logger of a daemon. From then on, the daemon continues when its outputs fail, and its log has a crash. Filters turn debug lines on.
 * @throws AppError `invalid`.
 */
export function daemonLogger(options: LogOptions): Logger {
  outliveOutputs();
  const filters = (options.filter ?? []).map((text) => {
    try {
      return new RegExp(text);
    } catch (err) {
      throw new AppError('invalid', `Invalid --log-filter ${JSON.stringify(text)}: ${(err as Error).message}`);
    }
  });
  const sinks = [
    pathSink(options.human, 'human'),
    pathSink(options.json, 'json'),
    pathSink(options.stackdriver ?? '', 'json', stackdriver),
  ].filter((sink): sink is LogSink => sink !== undefined);
  const log = createLogger({ level: options.verbose || filters.length > 0 ? 'debug' : 'info', sinks });
  logCrashes(log);
  return filters.length > 0 ? filtered(log, filters) : log;
}

/** The logger of a daemon with the flags of `logFlags`. @throws AppError `invalid`. */
export const loggerOf = (given: ValuesOf<ReturnType<typeof logFlags>> & { verbose: boolean }): Logger =>
  daemonLogger({
    human: given['log-human'],
    json: given['log-json'],
    stackdriver: given['log-stackdriver'],
    filter: given['log-filter'],
    verbose: given.verbose,
  });

/** The logger of a daemon with the options of the server. @throws AppError `invalid`. */
export const configuredLogger = (
  config: Pick<Config, 'logHuman' | 'logJson' | 'logStackdriver' | 'logFilter' | 'verbose'>,
): Logger =>
  daemonLogger({
    human: config.logHuman,
    json: config.logJson,
    stackdriver: config.logStackdriver,
    filter: config.logFilter,
    verbose: config.verbose,
  });

function filtered(log: Logger, filters: readonly RegExp[]): Logger {
  return {
    debug: (message, fields) => {
      if (filters.some((filter) => filter.test(message))) log.debug(message, fields);
    },
    info: log.info,
    warn: log.warn,
    error: log.error,
    keeps: log.keeps,
    child: (fields) => filtered(log.child(fields), filters),
  };
}

function stackdriver(line: string): string {
  const { ts, level, msg, ...fields } = JSON.parse(line) as { ts: string; level: LogLevel; msg: string };
  return JSON.stringify({ timestamp: ts, severity: SEVERITY[level], message: msg, ...fields });
}
