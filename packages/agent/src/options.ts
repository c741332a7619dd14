import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { promisify } from 'node:util';
import { AppError, type Logger, parseDuration } from '@platform/kit';
import { Startup_Subsystem } from '@platform/wire/proto/agent';
import type { DialOptions } from '@platform/wire/websocket';
import { defaultDataDir } from './data-dir.ts';
import { AGENT_AUTHS, type AgentAuth } from './identity.ts';

export interface AgentOptions {
  /** The server's address, as in CODER_AGENT_URL. */
  url: string;
  /** How the agent proves who it is (`token`). */
  auth?: AgentAuth;
  /** Address of the machine's metadata service, where it is not the cloud's own. */
  metadataUrl?: string;
  token?: string;
  /** Read (and trimmed) before each connection where there is no `token`. */
  tokenFile?: string;
  /** Where logs of scripts go whose path is not absolute. Default: the system's temporary directory. */
  logDir?: string;
  /** Holds `coder-script-data`. Default: the system's temporary directory. */
  scriptDataDir?: string;
  log: Logger;
  /** Of this build, `v` and three numbers: the server refuses others. */
  version: string;
  /** What children inherit. Default: this process's environment. */
  env?: NodeJS.ProcessEnv;
  /** More headers for each request to the server, asked for before each connection. */
  headers?: () => Promise<Record<string, string>> | Record<string, string>;
  /** TLS settings of the connection. */
  tls?: Pick<DialOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>;
  /** This program's path, for GIT_SSH_COMMAND and GIT_ASKPASS; without it they are not set. */
  executable?: string;
  subsystems?: Startup_Subsystem[];
  /** How long an SSH connection may be idle, in ms (72 h). 0: for ever. */
  sshMaxTimeoutMs?: number;
  /** Refuses SFTP, and exec of scp, rsync and the like. */
  blockFileTransfer?: boolean;
  /** Longest wait before another attempt to connect, in ms (2,000; 30,000 after a refused token). */
  reconnectCapMs?: number;
  /** While nobody looks at the metadata, how often new values of it are told, in ms (60,000). */
  metadataPaceMs?: number;
  /** How long a script's output is held back for a server that takes none of it, in ms (5,000). */
  logPatienceMs?: number;
}

const HEADER_COMMAND_MS = 10_000;

const SUBSYSTEMS: Record<string, Startup_Subsystem> = {
  envbox: Startup_Subsystem.ENVBOX,
  envbuilder: Startup_Subsystem.ENVBUILDER,
  exectrace: Startup_Subsystem.EXECTRACE,
};

/**
 * The options that the published environment names give. `version`, `log` and `executable` are the caller's.
 * Throws `invalid` where the address or the token is missing or a value can't be read.
 */
export function agentOptionsFromEnv(env: NodeJS.ProcessEnv): Omit<AgentOptions, 'log' | 'version' | 'executable'> {
  const url = env['CODER_AGENT_URL'] ?? '';
  if (!URL.canParse(url)) throw new AppError('invalid', 'CODER_AGENT_URL must be the address of the server.');
  const auth = env['CODER_AGENT_AUTH'] || 'token';
  if (!isAuth(auth)) {
    const known = AGENT_AUTHS.join(', ');
    throw new AppError('invalid', `CODER_AGENT_AUTH ${JSON.stringify(auth)} is not supported: use one of ${known}.`);
  }
  const { CODER_AGENT_TOKEN: token, CODER_AGENT_TOKEN_FILE: tokenFile } = env;
  if (auth === 'token' && !token && !tokenFile) {
    throw new AppError('invalid', 'CODER_AGENT_TOKEN or CODER_AGENT_TOKEN_FILE must be set.');
  }
  const subsystems = (env['CODER_AGENT_SUBSYSTEM'] ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
    .map((name) => {
      const known = SUBSYSTEMS[name];
      if (known === undefined) throw new AppError('invalid', `CODER_AGENT_SUBSYSTEM: unknown subsystem "${name}".`);
      return known;
    });
  const header = env['CODER_AGENT_HEADER'] ?? '';
  const headerCommand = env['CODER_AGENT_HEADER_COMMAND'] ?? '';
  return {
    url,
    auth,
    ...(env['CODER_AGENT_METADATA_URL'] ? { metadataUrl: env['CODER_AGENT_METADATA_URL'] } : {}),
    ...(token ? { token } : {}),
    ...(tokenFile ? { tokenFile } : {}),
    logDir: env['CODER_AGENT_LOG_DIR'] || tmpdir(),
    scriptDataDir: env['CODER_AGENT_SCRIPT_DATA_DIR'] || defaultDataDir(tmpdir()),
    env,
    headers: async () => ({
      ...parseHeaders(header.split(',')),
      ...(headerCommand ? parseHeaders(await runHeaderCommand(headerCommand, env)) : {}),
    }),
    subsystems,
    sshMaxTimeoutMs: parseDuration(env['CODER_AGENT_SSH_MAX_TIMEOUT'] || '72h'),
    blockFileTransfer: /^(1|t|true)$/i.test(env['CODER_AGENT_BLOCK_FILE_TRANSFER'] ?? ''),
  };
}

function isAuth(name: string): name is AgentAuth {
  return AGENT_AUTHS.includes(name);
}

/** Lines of the form `name=value` as headers; empty ones are left out. Throws `invalid`. */
export function parseHeaders(lines: string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of lines) {
    if (line.trim() === '') continue;
    const at = line.indexOf('=');
    // The value may be a secret: it is not named.
    if (at < 1) throw new AppError('invalid', 'A header of the agent is not of the form name=value.');
    headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return headers;
}

/** What CODER_AGENT_HEADER_COMMAND prints, asked for anew before each connection. */
async function runHeaderCommand(command: string, env: NodeJS.ProcessEnv): Promise<string[]> {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', command], { env, timeout: HEADER_COMMAND_MS }).catch(
    () => {
      throw new AppError('unavailable', 'The command of CODER_AGENT_HEADER_COMMAND has failed.');
    },
  );
  return stdout.split('\n');
}
