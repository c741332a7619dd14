import { existsSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { SCRIPT_DATA } from './data-dir.ts';
import type { AgentOptions } from './options.ts';
import type { Manifest } from './wire-types.ts';

export interface Account {
  username: string;
  home: string;
  shell: string;
}

const NO_LOGIN = /\/(nologin|false)$/;

/**
 * The account that sessions run as. Containers run with uids that have no passwd entry. The environment replaces it.
 */
export function currentAccount(env: NodeJS.ProcessEnv): Account {
  let entry: { username: string; homedir: string; shell: string | null } | undefined;
  try {
    entry = userInfo();
  } catch {
    // no entry for this uid
  }
  const usable = (shell: string | null | undefined): shell is string =>
    !!shell && !NO_LOGIN.test(shell) && existsSync(shell);
  return {
    username: entry?.username || env['USER'] || env['LOGNAME'] || String(process.getuid?.() ?? 'user'),
    // An image may set HOME and have no user.
    home: env['HOME'] || entry?.homedir || '/',
    shell: [entry?.shell, env['SHELL'], '/bin/bash'].find(usable) ?? '/bin/sh',
  };
}

/** Expands `$NAME` and `${NAME}` as a shell would. Unknown names are empty. */
export function expandVariables(text: string, env: NodeJS.ProcessEnv): string {
  return text.replace(/\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g, (_, a: string, b: string) => env[a ?? b] ?? '');
}

/** Resolves a path of the manifest: expands variables and a leading `~`. Relative paths are below `base`. */
export function expandPath(path: string, account: Account, env: NodeJS.ProcessEnv, base = account.home): string {
  if (path === '') return base;
  const expanded = expandVariables(path, { ...env, HOME: account.home });
  if (expanded === '~') return account.home;
  if (expanded.startsWith('~/')) return join(account.home, expanded.slice(2));
  return isAbsolute(expanded) ? expanded : join(base, expanded);
}

export function scriptBinDir(options: Pick<AgentOptions, 'scriptDataDir'>, fallback: string): string {
  return join(options.scriptDataDir ?? fallback, SCRIPT_DATA, 'bin');
}

export interface EnvironmentSource {
  options: AgentOptions;
  account: Account;
  token: string;
  manifest: Manifest;
  binDir: string;
  /** The variables of the owner's secrets. */
  secrets: Readonly<Record<string, string>>;
  /** Of the agent's local socket. */
  socketPath: string | undefined;
}

/**
 * The environment of a process of the user. `extra` belongs to the session and overrides the template's variables, and
 * secrets override both.
 */
export function userEnvironment(from: EnvironmentSource, extra: NodeJS.ProcessEnv = {}): Record<string, string> {
  const { options, account, token, manifest, secrets, binDir, socketPath } = from;
  const inherited = options.env ?? process.env;
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(inherited)) if (value !== undefined) env[name] = value;
  Object.assign(env, {
    USER: account.username,
    LOGNAME: account.username,
    HOME: account.home,
    SHELL: account.shell,
    CODER: 'true',
    CODER_WORKSPACE_NAME: manifest.workspaceName,
    CODER_WORKSPACE_AGENT_NAME: manifest.agentName,
    CODER_WORKSPACE_OWNER_NAME: manifest.ownerUsername,
    CODER_AGENT_TOKEN: token,
    CODER_AGENT_URL: options.url,
    CS_DISABLE_GETTING_STARTED_OVERRIDE: '1',
    VSCODE_PROXY_URI: manifest.vsCodePortProxyUri,
  });
  if (socketPath !== undefined) env['CODER_AGENT_SOCKET_PATH'] = socketPath;
  if (options.executable) {
    const quoted = options.executable.replaceAll("'", "'\\''");
    env['GIT_SSH_COMMAND'] = /[^\w@%+=:,./-]/.test(quoted) ? `'${quoted}' gitssh --` : `${quoted} gitssh --`;
    env['GIT_ASKPASS'] = options.executable;
  }
  for (const [name, value] of Object.entries(manifest.environmentVariables)) env[name] = expandVariables(value, env);
  for (const [name, value] of Object.entries(extra)) if (value !== undefined) env[name] = value;
  Object.assign(env, secrets);
  env['PATH'] = [binDir, env['PATH'] || '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'].join(delimiter);
  return env;
}

/** The directory that sessions start in: the template's, else home, else the root. */
export function workingDirectory(manifest: Manifest, account: Account, env: NodeJS.ProcessEnv): string {
  for (const path of [expandPath(manifest.directory, account, env), account.home]) {
    try {
      if (statSync(path).isDirectory()) return path;
    } catch {
      // Try the next one.
    }
  }
  return '/';
}
