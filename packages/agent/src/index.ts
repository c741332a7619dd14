export { type RunningAgent, runAgent } from './agent.ts';
export { deriveHostKey, type HostKey } from './host-key.ts';
export { type AgentOptions, agentOptionsFromEnv } from './options.ts';
