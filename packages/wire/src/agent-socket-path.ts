/** Where an agent's local socket is by default. Source: upstream's agent. */
export const AGENT_SOCKET_PATH =
  process.platform === 'win32' ? '\\\\.\\pipe\\com.coder.agentsocket' : '/tmp/coder-agent.sock';
