import { isIPv6 } from 'node:net';
import { AppError, parseDuration } from '@ropewalk/kit';
import { type CronForm, cronError } from '@ropewalk/kit/cron';

/** The type of each option's parsed value. Durations are in ms. */
export interface OptionTypes {
  string: string;
  int: number;
  bool: boolean;
  duration: number;
  url: string;
  'host:port': string;
  'string[]': string[];
  json: unknown;
}
export type OptionType = keyof OptionTypes;

/** One row defines the flag, the environment variable, the YAML key, the help text and the docs. */
export interface OptionRow<T extends OptionType = OptionType> {
  type: T;
  /** Upstream's name of the option. Its clients look options up by name. Absent if `optionTitle` makes the same of the flag. */
  title?: string;
  /** Without the dashes. Absent for an option without a flag. */
  flag?: string;
  short?: string;
  env?: string;
  /** Dotted path in the YAML file. */
  yaml?: string;
  /** Dotted path in the configuration that `deployment/config` returns. */
  json?: string;
  default?: string;
  description: string;
  /** Its value never appears in logs, in `deployment/config` or in a child's environment. */
  secret?: true;
  hidden?: true;
  /** Heading in the help and the docs. */
  group: string;
  /** Why this server cannot give the option an effect. It is accepted so that an existing configuration works. */
  ignored?: string;
  /** The allowed values. */
  values?: readonly string[];
  /** Whether upstream's clients read the value with the allowed ones, as `{Choices, Value}`. */
  withChoices?: true;
  /** The form of a cron schedule. */
  cron?: CronForm;
}

/** Kubernetes puts the address of a pod into a URL as it is: an IPv6 address without brackets. */
function withBrackets(url: string): string {
  const [, scheme, host = '', rest] = /^(https?:\/\/)([\da-f:]+)(:\d+\/?)$/i.exec(url) ?? [];
  return isIPv6(host) ? `${scheme}[${host}]${rest}` : url;
}

export function parseOption<T extends OptionType>(row: OptionRow<T>, text: string, from: string): OptionTypes[T] {
  const wrong = (why: string) => new AppError('invalid', `Invalid value for ${from}: ${why}`);
  const value = ((): OptionTypes[OptionType] => {
    switch (row.type) {
      case 'int':
        if (!/^-?\d+$/.test(text.trim())) throw wrong(`${JSON.stringify(text)} is not a whole number`);
        return Number(text);
      case 'bool':
        if (/^(true|1|t|yes|on)$/i.test(text.trim())) return true;
        if (/^(false|0|f|no|off|)$/i.test(text.trim())) return false;
        throw wrong(`${JSON.stringify(text)} is not true or false`);
      case 'duration':
        try {
          return parseDuration(text);
        } catch (err) {
          throw wrong((err as Error).message);
        }
      case 'url': {
        const url = withBrackets(text);
        if (url !== '' && !URL.canParse(url)) throw wrong(`${JSON.stringify(text)} is not a URL`);
        return url;
      }
      case 'host:port':
        if (text !== '' && !/^(\[[0-9a-fA-F:]+\]|[^:[\]]*):\d{1,5}$/.test(text)) {
          throw wrong(`${JSON.stringify(text)} must be HOST:PORT`);
        }
        return text;
      case 'string[]':
        return text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]));
      case 'json':
        try {
          return text === '' ? null : JSON.parse(text);
        } catch {
          throw wrong('not JSON');
        }
      default:
        return text;
    }
  })();
  if (row.cron) {
    const why = cronError(text.trim(), row.cron);
    if (why !== undefined) throw wrong(why);
  }
  if (row.values && !row.values.includes(String(value))) throw wrong(`must be one of ${row.values.join(', ')}`);
  return value as OptionTypes[T];
}
