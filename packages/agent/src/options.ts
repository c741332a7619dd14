import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { promisify } from 'node:util';
import { type AgentAuth, parseAuth } from '@ropewalk/client/instance-identity';
import { AppError, type Logger, parseDuration } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { AGENT_SOCKET_PATH } from '@ropewalk/wire/agent-socket-path';
import { Startup_Subsystem } from '@ropewalk/wire/proto/agent';
import type { DialOptions } from '@ropewalk/wire/websocket';
import { defaultDataDir } from './data-dir.ts';

export interface AgentOptions {
  /** The server's address, as in CODER_AGENT_URL. */
  url: string;
  /** How the agent proves its identity (default: `token`). */
  auth?: AgentAuth;
  /** Which of the machine's agents this is, for proofs of identity of machines with several. */
  name?: string;
  /** The address of the machine's metadata service, if it is not the cloud's default. */
  metadataUrl?: string;
  token?: string;
  /** Read and trimmed before each connection if `token` is not set. */
  tokenFile?: string;
  /**
   * The directory for logs of scripts whose path is relative. Default: the system's temporary directory, or one below it
   * if another agent logs there.
   */
  logDir?: string;
  /** The parent of `coder-script-data`. Default: the system's temporary directory. */
  scriptDataDir?: string;
  log: Logger;
  /** The version of this build: `v` and three numbers. The server rejects other forms. */
  version: string;
  /** The environment that children inherit. Default: this process's environment. */
  env?: NodeJS.ProcessEnv;
  /** Additional headers for each request to the server, evaluated before each connection. */
  headers?: () => Promise<Record<string, string>> | Record<string, string>;
  /** TLS settings of the connection. */
  tls?: Pick<DialOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>;
  /** This program's path, for GIT_SSH_COMMAND and GIT_ASKPASS. Without it they are not set. */
  executable?: string;
  subsystems?: Startup_Subsystem[];
  /** How long an SSH connection may be idle, in ms (default 72 h). 0: no limit. */
  sshMaxTimeoutMs?: number;
  /** Whether to follow Docker's containers and manage dev containers (default true). */
  devcontainers?: boolean;
  /** Whether to search Git repositories for dev containers (default true). */
  devcontainerDiscovery?: boolean;
  /** Whether to start discovered dev containers whose configuration asks for it (default false). */
  devcontainerAutostart?: boolean;
  /**
   * The path of the socket for programs in the workspace. Default: upstream's. If another agent uses it, the agent takes
   * a private path. Programs find either in CODER_AGENT_SOCKET_PATH. Empty: no socket.
   */
  socketPath?: string;
  /** Rejects SFTP, and commands such as scp and rsync. */
  blockFileTransfer?: boolean;
  /** The longest wait before another attempt to connect, in ms (default 2,000, or 30,000 after a rejected token). */
  reconnectCapMs?: number;
  /** How often new metadata values are reported while nobody watches, in ms (default 60,000). */
  metadataPaceMs?: number;
  /** How long a script's output is held back while the server accepts none of it, in ms (default 5,000). */
  logPatienceMs?: number;
}

const HEADER_COMMAND_MS = 10_000;

const SUBSYSTEMS: Record<string, Startup_Subsystem> = {
  envbox: Startup_Subsystem.ENVBOX,
  envbuilder: Startup_Subsystem.ENVBUILDER,
  exectrace: Startup_Subsystem.EXECTRACE,
};

/**
 * Reads the agent's options from upstream's environment variables. The caller sets `version`, `log` and `executable`.
 * Throws `invalid` if the address or the token is missing or a value cannot be parsed.
 */
export function agentOptionsFromEnv(env: NodeJS.ProcessEnv): Omit<AgentOptions, 'log' | 'version' | 'executable'> {
  const url = env['CODER_AGENT_URL'] ?? '';
  if (!URL.canParse(url)) throw new AppError('invalid', 'CODER_AGENT_URL must be the URL of the server.');
  const auth = parseAuth(env['CODER_AGENT_AUTH'] || 'token');
  const { CODER_AGENT_TOKEN: token, CODER_AGENT_TOKEN_FILE: tokenFile } = env;
  if (auth === 'token' && !token && !tokenFile) {
    throw new AppError('invalid', 'Set CODER_AGENT_TOKEN or CODER_AGENT_TOKEN_FILE.');
  }
  const subsystems = (env['CODER_AGENT_SUBSYSTEM'] ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
    .map((name) => {
      const known = ownValue(SUBSYSTEMS, name);
      if (known === undefined) throw new AppError('invalid', `Unknown subsystem "${name}" in CODER_AGENT_SUBSYSTEM.`);
      return known;
    });
  const header = env['CODER_AGENT_HEADER'] ?? '';
  const headerCommand = env['CODER_AGENT_HEADER_COMMAND'] ?? '';
  return {
    url,
    auth,
    ...(env['CODER_AGENT_NAME'] ? { name: env['CODER_AGENT_NAME'] } : {}),
    ...(env['CODER_AGENT_METADATA_URL'] ? { metadataUrl: env['CODER_AGENT_METADATA_URL'] } : {}),
    ...(token ? { token } : {}),
    ...(tokenFile ? { tokenFile } : {}),
    ...(env['CODER_AGENT_LOG_DIR'] ? { logDir: env['CODER_AGENT_LOG_DIR'] } : {}),
    scriptDataDir: env['CODER_AGENT_SCRIPT_DATA_DIR'] || defaultDataDir(tmpdir()),
    env,
    headers: async () => ({
      ...parseHeaders(header.split(',')),
      ...(headerCommand ? parseHeaders(await runHeaderCommand(headerCommand, env)) : {}),
    }),
    subsystems,
    sshMaxTimeoutMs: parseDuration(env['CODER_AGENT_SSH_MAX_TIMEOUT'] || '72h'),
    socketPath: isTrue(env['CODER_AGENT_SOCKET_SERVER_ENABLED'], true)
      ? env['CODER_AGENT_SOCKET_PATH'] || AGENT_SOCKET_PATH
      : '',
    blockFileTransfer: isTrue(env['CODER_AGENT_BLOCK_FILE_TRANSFER'], false),
    devcontainers: isTrue(env['CODER_AGENT_DEVCONTAINERS_ENABLE'], true),
    devcontainerDiscovery: isTrue(env['CODER_AGENT_DEVCONTAINERS_PROJECT_DISCOVERY_ENABLE'], true),
    devcontainerAutostart: isTrue(env['CODER_AGENT_DEVCONTAINERS_DISCOVERY_AUTOSTART_ENABLE'], false),
  };
}

const isTrue = (text: string | undefined, otherwise: boolean): boolean =>
  text ? /^(1|t|true)$/i.test(text) : otherwise;

/** Parses lines of the form `name=value` as headers. Ignores empty lines. Throws `invalid`. */
export function parseHeaders(lines: string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of lines) {
    if (line.trim() === '') continue;
    const at = line.indexOf('=');
    // The message does not quote the line: its value may be a secret.
    if (at < 1) throw new AppError('invalid', 'Invalid header for the agent: use the form name=value.');
    headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return headers;
}

/** Returns the lines that CODER_AGENT_HEADER_COMMAND prints. It runs before each connection. */
async function runHeaderCommand(command: string, env: NodeJS.ProcessEnv): Promise<string[]> {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', command], { env, timeout: HEADER_COMMAND_MS }).catch(
    () => {
      throw new AppError('unavailable', 'The command in CODER_AGENT_HEADER_COMMAND failed.');
    },
  );
  return stdout.split('\n');
}
