// A real agent, for tests of packages that may not import it.
export { type AgentOptions, type RunningAgent, runAgent } from '@ropewalk/agent';
