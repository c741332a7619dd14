export { createClient, type Fetch } from '@ropewalk/client';
export {
  Calls,
  createMcpServer,
  type McpServer,
  PROTOCOL_VERSIONS,
  RPC,
  type RpcAnswer,
  rpcError,
} from './server.ts';
export type { AgentStream, TaskReport, Tool, ToolContext } from './tool.ts';
export { TOOLS } from './tools/index.ts';
