import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import { VERSION } from '@ropewalk/kit/version';
import { command } from '../../../framework/definition.ts';
import { agentAuthFlags } from '../../../lib/flags.ts';
import { daemonLogger } from '../logging.ts';
import { selfExecutable } from '../self.ts';
import { onEverySignal } from '../signals.ts';

const flags = {
  'log-human': {
    type: 'string',
    env: 'CODER_AGENT_LOGGING_HUMAN',
    default: '/dev/stderr',
    description: 'Output for human-readable logs: a file, /dev/stdout or /dev/stderr.',
  },
  'log-json': {
    type: 'string',
    env: 'CODER_AGENT_LOGGING_JSON',
    description: 'Output for logs as JSON lines: a file, /dev/stdout or /dev/stderr. Default: none.',
  },
  ...agentAuthFlags,
  'log-dir': {
    type: 'string',
    env: 'CODER_AGENT_LOG_DIR',
    description: 'Directory for the logs of scripts. Default: the system directory for temporary files.',
  },
  'script-data-dir': {
    type: 'string',
    env: 'CODER_AGENT_SCRIPT_DATA_DIR',
    description: 'Directory for the data of scripts. Default: the system directory for temporary files.',
  },
  'devcontainers-enable': {
    type: 'bool',
    env: 'CODER_AGENT_DEVCONTAINERS_ENABLE',
    default: 'true',
    description: 'Whether to manage dev containers with Docker and the devcontainer command.',
  },
  'devcontainers-project-discovery-enable': {
    type: 'bool',
    env: 'CODER_AGENT_DEVCONTAINERS_PROJECT_DISCOVERY_ENABLE',
    default: 'true',
    description: 'Whether to find dev containers in the Git repositories of the agent directory.',
  },
  'devcontainers-discovery-autostart-enable': {
    type: 'bool',
    env: 'CODER_AGENT_DEVCONTAINERS_DISCOVERY_AUTOSTART_ENABLE',
    description: 'Whether to start found dev containers whose configuration sets autoStart.',
  },
  'socket-server-enabled': {
    type: 'bool',
    env: 'CODER_AGENT_SOCKET_SERVER_ENABLED',
    default: 'true',
    description: 'Whether programs in the workspace can reach the agent over a local socket, as coder exp sync does.',
  },
  'socket-path': {
    type: 'string',
    env: 'CODER_AGENT_SOCKET_PATH',
    description:
      'Path of the local socket. Default: /tmp/coder-agent.sock, or a private path if another agent uses it.',
  },
  'no-reap': {
    type: 'bool',
    description:
      'Do not reap orphaned processes when the agent is PID 1. Has no effect: the agent never reaps them. Run the container with an init process instead.',
  },
} as const;

/** `coder agent`, which init scripts start in a workspace. */
export default command({ flags }, async (ctx, { flags: given }) => {
  const { agentOptionsFromEnv, runAgent } = await import('@ropewalk/agent');
  const { verbose } = ctx.globals;
  const log = daemonLogger({ human: given['log-human'], json: given['log-json'], verbose });
  const env = { ...ctx.env };
  const set = (name: string, value: string) => {
    if (value !== '') env[name] = value;
  };
  set('CODER_AGENT_TOKEN', ctx.globals['agent-token']);
  set('CODER_AGENT_TOKEN_FILE', ctx.globals['agent-token-file']);
  set('CODER_AGENT_URL', ctx.globals['agent-url']);
  set('CODER_AGENT_AUTH', given.auth);
  set('CODER_AGENT_NAME', given['agent-name']);
  set('CODER_AGENT_LOG_DIR', given['log-dir']);
  set('CODER_AGENT_SCRIPT_DATA_DIR', given['script-data-dir']);
  set('CODER_AGENT_DEVCONTAINERS_ENABLE', String(given['devcontainers-enable']));
  set('CODER_AGENT_DEVCONTAINERS_PROJECT_DISCOVERY_ENABLE', String(given['devcontainers-project-discovery-enable']));
  set(
    'CODER_AGENT_DEVCONTAINERS_DISCOVERY_AUTOSTART_ENABLE',
    String(given['devcontainers-discovery-autostart-enable']),
  );
  set('CODER_AGENT_SOCKET_SERVER_ENABLED', String(given['socket-server-enabled']));
  set('CODER_AGENT_SOCKET_PATH', given['socket-path']);
  const executable = selfExecutable();
  const agent = runAgent({
    ...agentOptionsFromEnv(env),
    version: VERSION,
    log,
    ...(executable ? { executable } : {}),
  });
  let stopping = 0;
  onEverySignal(['SIGINT', 'SIGTERM'], () => {
    if (++stopping > 1) process.exit(1);
    void agent.stop();
  });
  releaseMemoryWhenIdle();
  await agent.done;
});
