import { AppError } from '@ropewalk/kit/errors';

const BEGIN = '# >>> coder config-ssh >>>';
const END = '# <<< coder config-ssh <<<';
const REMEMBERED = /^# option: --([a-z-]+)=(.*)$/;
/** The markers of our block, and of upstream's block, which ours replaces. */
const KINDS = [
  { begin: BEGIN, end: END },
  { begin: '# ------------START-CODER-----------', end: '# ------------END-CODER------------' },
] as const;
/** Upstream's command remembers its options in another form. Some of them do not exist here. */
const REMEMBERED_THERE =
  /^# :(ssh-option|ssh-host-prefix|hostname-suffix|wait|disable-autostart|coder-binary-path|no-wildcard)=(.*)$/;

/** A flag and its value, in the order in which they were given. */
export type Remembered = readonly (readonly [flag: string, value: string])[];

/** An SSH configuration, split at our block, or at both blocks. Blocks consist of whole lines. */
export interface Split {
  before: string;
  /** Our block, or else upstream's. Empty without either. */
  block: string;
  after: string;
}

/** @throws AppError `conflict` if the markers do not mark at most one block of each kind. */
export function splitAtBlock(text: string, file: string): Split {
  const lines = text.split(/(?<=\n)/);
  const marks = lines.flatMap((line, i) => {
    const mark = line.trim();
    return KINDS.flatMap(({ begin, end }, kind) => (mark === begin || mark === end ? [{ mark, kind, i }] : []));
  });
  const blocks: { kind: number; from: number; to: number }[] = [];
  for (let at = 0; at < marks.length; at += 2) {
    const [first, last] = [marks[at]!, marks[at + 1]];
    const { begin, end } = KINDS[first.kind]!;
    const isSecond = blocks.some(({ kind }) => kind === first.kind);
    if (first.mark !== begin || last?.mark !== end || isSecond) {
      const places = marks.map(({ i }) => i + 1).join(', ');
      throw new AppError(
        'conflict',
        `The markers of \`coder config-ssh\` in ${file} do not match (see line ${places}). ` +
          'Remove the rest of the block by hand and run the command again. Nothing was changed.',
      );
    }
    blocks.push({ kind: first.kind, from: first.i, to: last.i + 1 });
  }
  const [first] = blocks;
  if (!first) return { before: text, block: '', after: '' };
  const remembered = blocks.find(({ kind }) => kind === 0) ?? first;
  return {
    before: lines.slice(0, first.from).join(''),
    block: lines.slice(remembered.from, remembered.to).join(''),
    after: lines.filter((_, i) => i >= first.to && !blocks.some(({ from, to }) => i >= from && i < to)).join(''),
  };
}

/** Replaces the old block, or appends the new one. With '', removes the block. */
export function withBlock({ before, after }: Split, block: string): string {
  const newline = newlineOf(before + after);
  const gap = block !== '' && before !== '' && !before.endsWith('\n') ? newline : '';
  return before + gap + block.replaceAll('\n', newline) + after;
}

const newlineOf = (text: string) => (/^[^\n]*\r\n/.test(text) ? '\r\n' : '\n');

/** The flags that wrote the block. */
export function rememberedIn(block: string): Remembered {
  return block.split(/\r?\n/).flatMap((line) => {
    const found = REMEMBERED.exec(line) ?? REMEMBERED_THERE.exec(line);
    return found ? [[found[1]!, found[2]!] as const] : [];
  });
}

export interface Hosts {
  /** The prefix of host names, such as `coder.`. Empty for no prefix. */
  prefix: string;
  /** The suffix of host names, without its dot. Empty for no suffix. */
  suffix: string;
  /** The words of the coder command up to `ssh`, quoted for ProxyCommand. */
  command: string;
  /** Further flags of `coder ssh`. */
  sshFlags: readonly string[];
  /** SSH options, as `Key value`. */
  options: readonly string[];
  remembered: Remembered;
  /** Quotes the host's name: older versions of ssh do not protect it from the shell. */
  quoteHost: (text: string) => string;
  /** Names of workspaces, which get one entry each. Undefined: one entry for all, also future ones. */
  workspaces: readonly string[] | undefined;
}

/** The whole block, with LF at the end of its lines. */
export function renderBlock(hosts: Hosts): string {
  const host = (pattern: string, flag: string) => [
    `Host ${pattern}`,
    ...hosts.options.map((option) => `\t${option}`),
    `\tProxyCommand ${[hosts.command, 'ssh', '--stdio', ...hosts.sshFlags, flag, hosts.quoteHost('%h')].join(' ')}`,
  ];
  const names = hosts.workspaces ?? ['*'];
  const lines = [
    BEGIN,
    '# `coder config-ssh` wrote this block and replaces everything between its two markers when it runs again.',
    '# To remove the block: coder config-ssh --remove',
    ...hosts.remembered.map(([flag, value]) => `# option: --${flag}=${value}`),
    ...names.flatMap((name) => [
      ...(hosts.prefix === '' ? [] : host(`${hosts.prefix}${name}`, `--ssh-host-prefix ${hosts.prefix}`)),
      ...(hosts.suffix === '' ? [] : host(`${name}.${hosts.suffix}`, `--hostname-suffix ${hosts.suffix}`)),
    ]),
    END,
  ];
  return lines.map((line) => `${line}\n`).join('');
}
