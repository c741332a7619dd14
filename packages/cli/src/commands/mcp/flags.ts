import type { FlagDefs } from '../../framework/types.ts';

export const agentApiFlag = {
  'ai-agentapi-url': {
    type: 'url',
    env: 'CODER_MCP_AI_AGENTAPI_URL',
    description: 'URL of the AgentAPI that runs the coding agent. It shows whether the coding agent works or waits.',
  },
} as const satisfies FlagDefs;
