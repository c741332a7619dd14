export { Calls, createMcpServer, type McpServer, PROTOCOL_VERSIONS, type RpcAnswer, rpcError } from './server.ts';
export type { AgentStream, TaskReport, Tool, ToolContext } from './tool.ts';
export { TOOLS } from './tools/index.ts';
