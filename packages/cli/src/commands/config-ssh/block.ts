import { AppError } from '@platform/kit/errors';

const BEGIN = '# >>> coder config-ssh >>>';
const END = '# <<< coder config-ssh <<<';
const REMEMBERED = /^# option: --([a-z-]+)=(.*)$/;

/** A flag and its value, in the order in which they were given. */
export type Remembered = readonly (readonly [flag: string, value: string])[];

/** An SSH configuration around the block of ours, which begins and ends with whole lines. */
export interface Split {
  before: string;
  /** Empty where there is none. */
  block: string;
  after: string;
}

/** @throws AppError 'conflict' where the markers do not mark one block. */
export function splitAtBlock(text: string, file: string): Split {
  const lines = text.split(/(?<=\n)/);
  const marks = lines.flatMap((line, i) => {
    const mark = line.trim();
    return mark === BEGIN || mark === END ? [{ mark, i }] : [];
  });
  if (marks.length === 0) return { before: text, block: '', after: '' };
  const [first, last] = marks;
  if (marks.length !== 2 || first!.mark !== BEGIN || last!.mark !== END) {
    const at = marks.map(({ i }) => i + 1).join(', ');
    throw new AppError(
      'conflict',
      `${file} does not hold one block of \`coder config-ssh\` from its first to its last marker (see line ${at}). ` +
        'Take out by hand what is left of it, and run this again. Nothing was changed.',
    );
  }
  return {
    before: lines.slice(0, first!.i).join(''),
    block: lines.slice(first!.i, last!.i + 1).join(''),
    after: lines.slice(last!.i + 1).join(''),
  };
}

/** Puts a block, or with '' none, where the old one is, or at the end: what stands first wins in an SSH configuration. */
export function withBlock({ before, after }: Split, block: string): string {
  const newline = newlineOf(before + after);
  const gap = block !== '' && before !== '' && !before.endsWith('\n') ? newline : '';
  return before + gap + block.replaceAll('\n', newline) + after;
}

const newlineOf = (text: string) => (/^[^\n]*\r\n/.test(text) ? '\r\n' : '\n');

/** The flags with which the block was written. */
export function rememberedIn(block: string): Remembered {
  return block.split(/\r?\n/).flatMap((line) => {
    const found = REMEMBERED.exec(line);
    return found ? [[found[1]!, found[2]!] as const] : [];
  });
}

export interface Hosts {
  /** What host names begin with, such as `coder.`; empty for none. */
  prefix: string;
  /** What host names end with, without its dot; empty for none. */
  suffix: string;
  /** The words of the coder command up to `ssh`, quoted for ProxyCommand. */
  command: string;
  /** Further flags of `coder ssh`. */
  sshFlags: readonly string[];
  /** As they are written, `Key value`. */
  options: readonly string[];
  remembered: Remembered;
  /** Quotes the host's name, which only a newer ssh keeps free of what a shell would run. */
  quoteHost: (text: string) => string;
}

/** The whole block, with LF at the end of its lines. */
export function renderBlock(hosts: Hosts): string {
  const host = (pattern: string, flag: string) => [
    `Host ${pattern}`,
    ...hosts.options.map((option) => `\t${option}`),
    `\tProxyCommand ${[hosts.command, 'ssh', '--stdio', ...hosts.sshFlags, flag, hosts.quoteHost('%h')].join(' ')}`,
  ];
  const lines = [
    BEGIN,
    '# `coder config-ssh` wrote this, and replaces all between these two markers when it runs again.',
    '# To take it out: coder config-ssh --remove',
    ...hosts.remembered.map(([flag, value]) => `# option: --${flag}=${value}`),
    ...(hosts.prefix === '' ? [] : host(`${hosts.prefix}*`, `--ssh-host-prefix ${hosts.prefix}`)),
    ...(hosts.suffix === '' ? [] : host(`*.${hosts.suffix}`, `--hostname-suffix ${hosts.suffix}`)),
    END,
  ];
  return lines.map((line) => `${line}\n`).join('');
}
