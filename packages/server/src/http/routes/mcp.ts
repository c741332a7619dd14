import { defineHandlers, type Exchange } from '../exchange.ts';
import type { McpEndpoint } from '../mcp.ts';

function onlyPost({ reply }: Exchange, why: string): { message: string } {
  reply.code(405).header('allow', 'POST');
  return { message: why };
}

export function mcpHandlers(endpoint: McpEndpoint) {
  return defineHandlers({
    'POST /api/experimental/mcp/http': (ctx, { query, body, http }) =>
      endpoint(ctx, http, { toolset: query.toolset, body }) as never,
    'GET /api/experimental/mcp/http': (_ctx, { http }) =>
      onlyPost(http, 'This server sends no messages by itself. Send yours with POST.') as never,
    'DELETE /api/experimental/mcp/http': (_ctx, { http }) =>
      onlyPost(http, 'This server keeps no sessions. Nothing needs to end.') as never,
  });
}
