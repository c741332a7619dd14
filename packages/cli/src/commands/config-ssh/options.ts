import { AppError } from '@platform/kit/errors';

interface SshOption {
  key: string;
  value: string;
}

/** Would end the block's Host section, or take the place of its connection. */
const STRUCTURE = new Set(['host', 'match', 'include', 'proxycommand', 'proxyjump', 'proxyusefdpass', 'hostname']);
/** Run programs here, or say which are run: a server has no say in that. */
const RUNS_PROGRAMS = new Set([
  'knownhostscommand',
  'localcommand',
  'permitlocalcommand',
  'pkcs11provider',
  'securitykeyprovider',
  'xauthlocation',
]);

/**
 * - The agent's host key is checked by `coder ssh --stdio`, which has it from the server; a copy in known_hosts would
 *   only go stale as every new build of a workspace has another key. ssh must not ask or note anything about it, and
 *   would otherwise say each time that it has noted the key.
 * - A workspace may have to be started first, for which the usual time-out for connections is too short.
 */
const DEFAULTS: readonly SshOption[] = [
  { key: 'ConnectTimeout', value: '0' },
  { key: 'StrictHostKeyChecking', value: 'no' },
  { key: 'UserKnownHostsFile', value: '/dev/null' },
  { key: 'GlobalKnownHostsFile', value: '/dev/null' },
  { key: 'LogLevel', value: 'ERROR' },
];

/**
 * The options of the hosts: the person's own, then the server's, then the defaults, each in place of those after it.
 * The server's that it has no say in are left out, and told.
 * @param given `Key=value` or `Key value` each.
 * @throws AppError 'invalid' for an option that can not be.
 */
export function sshOptions(
  given: readonly string[],
  fromServer: Readonly<Record<string, string>>,
  tell: (line: string) => void,
): string[] {
  const own = given.map((text) => {
    const option = parseOption(text);
    const wrong = option ? wrongWith(option) : 'write it as Key=value';
    if (wrong) throw new AppError('invalid', `--ssh-option ${JSON.stringify(text)}: ${wrong}.`);
    return option!;
  });
  const servers = Object.entries(fromServer).flatMap(([key, value]) => {
    const option = { key, value };
    const wrong = wrongWith(option) ?? (RUNS_PROGRAMS.has(key.toLowerCase()) ? 'it runs programs here' : undefined);
    if (wrong) tell(`Warning: The server's SSH option ${JSON.stringify(key)} is left out: ${wrong}.`);
    return wrong ? [] : [option];
  });
  const chosen: SshOption[] = [];
  for (const layer of [own, servers, DEFAULTS]) {
    const taken = new Set(chosen.map(({ key }) => key.toLowerCase()));
    chosen.push(...layer.filter(({ key }) => !taken.has(key.toLowerCase())));
  }
  return chosen.map(({ key, value }) => `${key} ${value}`);
}

function parseOption(text: string): SshOption | undefined {
  const found = /^\s*([^\s=]+)(?:\s*=\s*|\s+)(.*?)\s*$/s.exec(text);
  return found ? { key: found[1]!, value: found[2]! } : undefined;
}

function wrongWith({ key, value }: SshOption): string | undefined {
  if (!/^[A-Za-z][A-Za-z0-9]*$/.test(key)) return `${JSON.stringify(key)} is no name of an option of ssh`;
  if (STRUCTURE.has(key.toLowerCase())) return `${key} is not to be set for these hosts`;
  if (value === '') return 'it needs a value';
  if (hasControl(value)) return 'its value must be one line of text';
  return undefined;
}

export function hasControl(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  return /[\u0000-\u0008\u000a-\u001f\u007f]/.test(text);
}

/** A word of ProxyCommand, which a shell reads after ssh has replaced its `%` marks. */
export function quoteWord(text: string, platform: NodeJS.Platform = process.platform): string {
  if (hasControl(text)) throw new AppError('invalid', `${JSON.stringify(text)} can not stand in an SSH configuration.`);
  const plain = text.replaceAll('%', '%%');
  if (platform === 'win32') return /[\s&^]/.test(plain) ? `"${plain}"` : plain;
  return /^[\w@+=:,./%-]+$/.test(plain) ? plain : `'${plain.replaceAll("'", `'\\''`)}'`;
}
