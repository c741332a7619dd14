import { AppError } from '@ropewalk/kit/errors';

interface SshOption {
  key: string;
  value: string;
}

/** Options that would end the Host section of the block, or replace its connection. */
const STRUCTURE = new Set(['host', 'match', 'include', 'proxycommand', 'proxyjump', 'proxyusefdpass', 'hostname']);
/** Options that run programs on this machine. A server must not set them. */
const RUNS_PROGRAMS = new Set([
  'knownhostscommand',
  'localcommand',
  'permitlocalcommand',
  'pkcs11provider',
  'securitykeyprovider',
  'xauthlocation',
]);

/**
 * - `coder ssh --stdio` checks the agent's host key, which it gets from the server. A copy in known_hosts would be wrong
 *   after every new build of the workspace. So ssh must neither ask about the key nor record it.
 * - The usual connection timeout is too short for a workspace that has to start first.
 */
const DEFAULTS: readonly SshOption[] = [
  { key: 'ConnectTimeout', value: '0' },
  { key: 'StrictHostKeyChecking', value: 'no' },
  { key: 'UserKnownHostsFile', value: '/dev/null' },
  { key: 'GlobalKnownHostsFile', value: '/dev/null' },
  { key: 'LogLevel', value: 'ERROR' },
];

/**
 * The options of the hosts: the user's own take precedence over the server's, and those over the defaults. Leaves out
 * options that the server must not set, with a warning.
 * @param given `Key=value` or `Key value` each.
 * @throws AppError `invalid` for an invalid option.
 */
export function sshOptions(
  given: readonly string[],
  fromServer: Readonly<Record<string, string>>,
  notify: (line: string) => void,
): string[] {
  const own = given.map((text) => {
    const option = parseOption(text);
    const wrong = option ? wrongWith(option) : 'write it as Key=value';
    if (wrong) throw new AppError('invalid', `Invalid --ssh-option ${JSON.stringify(text)}: ${wrong}.`);
    return option!;
  });
  const servers = Object.entries(fromServer).flatMap(([key, value]) => {
    const option = { key, value };
    const wrong =
      wrongWith(option) ?? (RUNS_PROGRAMS.has(key.toLowerCase()) ? 'it runs programs on this machine' : undefined);
    if (wrong) notify(`Warning: Ignoring the server's SSH option ${JSON.stringify(key)}: ${wrong}.`);
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
  if (!/^[A-Za-z][A-Za-z0-9]*$/.test(key)) return `${JSON.stringify(key)} is not an SSH option`;
  if (STRUCTURE.has(key.toLowerCase())) return `${key} cannot be set for these hosts`;
  if (value === '') return 'the value is missing';
  if (hasControl(value)) return 'the value must be one line of text';
  return undefined;
}

export function hasControl(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the function looks for these
  return /[\u0000-\u0008\u000a-\u001f\u007f]/.test(text);
}

/** A path with `/` between its parts. Only Windows has paths with `\\`: elsewhere it is part of a name. */
export const unixPath = (path: string, platform: NodeJS.Platform = process.platform): string =>
  platform === 'win32' ? path.replaceAll('\\', '/') : path;

/** Quotes a word of ProxyCommand, which a shell reads after ssh has replaced its `%` marks. */
export function quoteWord(text: string, platform: NodeJS.Platform = process.platform): string {
  if (hasControl(text)) throw new AppError('invalid', `An SSH configuration cannot contain ${JSON.stringify(text)}.`);
  const plain = text.replaceAll('%', '%%');
  if (platform === 'win32') return /[\s&^]/.test(plain) ? `"${plain}"` : plain;
  return /^[\w@+=:,./%-]+$/.test(plain) ? plain : `'${plain.replaceAll("'", `'\\''`)}'`;
}
