import { Type } from 'typebox';
import { Response } from '../schema/common.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

/** The path of the MCP server. */
export const MCP_PATH = '/api/experimental/mcp/http';

/** The Streamable HTTP transport of the Model Context Protocol. It has one path for everything. */
export const mcpRoutes = {
  'POST /api/experimental/mcp/http': route({
    tag: 'MCP',
    auth: 'session',
    summary: 'Answers a JSON-RPC message of an MCP client. A long call answers with server-sent events.',
    query: Type.Object({ toolset: Type.Optional(Type.String()) }),
    // a message, or a batch of them
    body: Type.Union([Type.Object({}), Type.Array(Type.Object({}), { maxItems: 16 })]),
    unknownKeys: unknownKeys('answer'),
    responses: { 200: Type.Unknown(), 202: Nothing },
  }),
  'GET /api/experimental/mcp/http': route({
    tag: 'MCP',
    auth: 'session',
    summary: 'Rejects clients that wait for messages of the server: it sends none by itself.',
    responses: { 405: Response },
  }),
  'DELETE /api/experimental/mcp/http': route({
    tag: 'MCP',
    auth: 'session',
    summary: 'Rejects the end of a session: the server keeps none.',
    responses: { 405: Response },
  }),
} as const;
