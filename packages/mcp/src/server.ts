/**
 * The server half of the Model Context Protocol (https://modelcontextprotocol.io/specification): JSON-RPC 2.0 messages in,
 * answers out. It keeps no session: every message stands for itself, so that any server of a deployment can answer it. A
 * *call* is one `tools/call` until its answer. The transports are stdio.ts and the server's HTTP route.
 */
import { ApiError, UnreachableError } from '@ropewalk/client';
import { AppError, isAppError } from '@ropewalk/kit/errors';
import { checkArguments, type Tool, type ToolContext } from './tool.ts';

/** The versions of the protocol that differ in nothing that this server uses, newest first. */
export const PROTOCOL_VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const;

/** The time of a call, in ms. Commands may take 5 minutes, and their workspace may have to start first. */
export const MAX_CALL_MS = 600_000;
/** The size of a result, in characters. */
export const MAX_RESULT = 2 * 1024 * 1024;
/** The calls of one caller at a time. */
export const MAX_CALLS = 16;
/** The messages in a batch, which the version 2025-03-26 has. */
export const MAX_BATCH = 16;

/** Error codes of JSON-RPC. */
export const RPC = { parse: -32700, request: -32600, method: -32601, params: -32602, internal: -32603 } as const;

type Id = string | number;
export interface RpcError {
  code: number;
  message: string;
}
export type RpcAnswer = { jsonrpc: '2.0'; id: Id | null } & ({ result: object } | { error: RpcError });

export interface McpServerOptions {
  version: string;
  /** For the model, about all tools together. */
  instructions: string;
  tools: readonly Tool[];
  /** What a tool uses during a call. */
  context(signal: AbortSignal): ToolContext;
  /** Receives errors that are no one's fault but the server's. */
  onProblem(tool: string, err: unknown): void;
}

export interface McpServer {
  /**
   * Answers a message, or a batch of them. Undefined: nothing to send, as for a notification. Never rejects.
   * @param signal aborted when nobody waits for the answer any more
   */
  handle(message: unknown, signal: AbortSignal): Promise<RpcAnswer | RpcAnswer[] | undefined>;
}

/** The calls of one caller, which count together. */
export class Calls {
  readonly #running: Map<AbortController, string>;
  readonly #scope: string;

  private constructor(running: Map<AbortController, string>, scope: string) {
    this.#running = running;
    this.#scope = scope;
  }

  static none(): Calls {
    return new Calls(new Map(), '');
  }

  /** The same calls as one of several clients sees them: it can cancel only its own. Their ids may be equal. */
  of(client: string): Calls {
    return new Calls(this.#running, client);
  }

  get count(): number {
    return this.#running.size;
  }
  begin(id: Id): AbortController {
    const controller = new AbortController();
    this.#running.set(controller, this.#key(id));
    return controller;
  }
  end(controller: AbortController): void {
    this.#running.delete(controller);
  }
  cancel(id: Id): void {
    const key = this.#key(id);
    for (const [controller, one] of this.#running)
      if (one === key) controller.abort(new AppError('canceled', 'The call was canceled.'));
  }

  #key(id: Id): string {
    return `${this.#scope} ${JSON.stringify(id)}`;
  }
}

interface Message {
  id?: unknown;
  method?: unknown;
  params?: unknown;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isId = (value: unknown): value is Id => typeof value === 'string' || Number.isInteger(value);

class RpcFailure extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export const rpcError = (id: Id | null, code: number, message: string): RpcAnswer => ({
  jsonrpc: '2.0',
  id,
  error: { code, message },
});

export function createMcpServer(options: McpServerOptions, calls = Calls.none()): McpServer {
  const byName = new Map(options.tools.map((tool) => [tool.name, tool]));

  async function answer(message: unknown, signal: AbortSignal): Promise<RpcAnswer | undefined> {
    if (!isObject(message) || message['jsonrpc'] !== '2.0')
      return rpcError(null, RPC.request, 'Not a JSON-RPC 2.0 message.');
    const { id, method, params } = message as Message;
    // the answer to a request of the server, which sends none
    if (method === undefined && ('result' in message || 'error' in message)) return undefined;
    if (typeof method !== 'string') return rpcError(isId(id) ? id : null, RPC.request, 'The message has no method.');
    if (id === undefined) {
      if (method === 'notifications/cancelled' && isObject(params) && isId(params['requestId']))
        calls.cancel(params['requestId']);
      return undefined;
    }
    if (!isId(id)) return rpcError(null, RPC.request, 'The id must be a string or an integer.');
    try {
      if (params !== undefined && !isObject(params)) throw new RpcFailure(RPC.params, 'params must be an object.');
      return { jsonrpc: '2.0', id, result: await resultOf(id, method, params ?? {}, signal) };
    } catch (err) {
      if (err instanceof RpcFailure) return rpcError(id, err.code, err.message);
      options.onProblem(method.slice(0, 100), err);
      return rpcError(id, RPC.internal, 'Internal error.');
    }
  }

  async function resultOf(
    id: Id,
    method: string,
    params: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<object> {
    switch (method) {
      case 'initialize':
        return initialize(options, params);
      case 'ping':
        return {};
      case 'tools/list':
        if (params['cursor'] !== undefined) throw new RpcFailure(RPC.params, 'The list of tools has one page.');
        return { tools: options.tools.map(describe) };
      case 'tools/call': {
        const { name, arguments: args = {} } = params;
        if (typeof name !== 'string') throw new RpcFailure(RPC.params, 'tools/call needs the name of a tool.');
        const tool = byName.get(name);
        if (!tool) throw new RpcFailure(RPC.params, `Unknown tool: ${name.slice(0, 100)}`);
        return call(tool, args, id, signal);
      }
      default:
        throw new RpcFailure(RPC.method, `Method not found: ${method.slice(0, 100)}`);
    }
  }

  /** Runs a tool. What goes wrong in it is a result, which the model can read and correct. */
  async function call(tool: Tool, args: unknown, id: Id, caller: AbortSignal): Promise<object> {
    if (calls.count >= MAX_CALLS)
      return failure(`${MAX_CALLS} calls are running, the maximum. Call again when one of them has ended.`);
    const controller = calls.begin(id);
    const signal = AbortSignal.any([controller.signal, caller, AbortSignal.timeout(MAX_CALL_MS)]);
    try {
      signal.throwIfAborted();
      const value = await abortable(signal, async () =>
        tool.run(options.context(signal), (await checkArguments(tool, args)) as never),
      );
      const text = JSON.stringify(value) ?? 'null';
      if (text.length > MAX_RESULT)
        return failure(`The result of ${tool.name} is longer than ${MAX_RESULT} characters.`);
      return { content: [{ type: 'text', text }] };
    } catch (err) {
      const text = textOf(err, signal);
      if (text === undefined) options.onProblem(tool.name, err);
      return failure(text ?? 'The tool failed because of a problem of the server. Its log has more.');
    } finally {
      calls.end(controller);
    }
  }

  return {
    async handle(message, signal) {
      if (!Array.isArray(message)) return answer(message, signal);
      if (message.length === 0 || message.length > MAX_BATCH)
        return rpcError(null, RPC.request, `A batch has 1 to ${MAX_BATCH} messages.`);
      const answers = await Promise.all(message.map((one) => answer(one, signal)));
      const sent = answers.filter((one) => one !== undefined);
      return sent.length > 0 ? sent : undefined;
    },
  };
}

function initialize({ version, instructions }: McpServerOptions, params: Record<string, unknown>): object {
  const wanted = params['protocolVersion'];
  if (typeof wanted !== 'string') throw new RpcFailure(RPC.params, 'initialize needs protocolVersion.');
  const known = PROTOCOL_VERSIONS.find((one) => one === wanted);
  return {
    protocolVersion: known ?? PROTOCOL_VERSIONS[0],
    capabilities: { tools: { listChanged: false } },
    serverInfo: { name: 'Coder', version },
    ...(instructions === '' ? {} : { instructions }),
  };
}

const describe = ({ name, description, input, effect }: Tool): object => ({
  name,
  description,
  inputSchema: input,
  annotations: {
    readOnlyHint: effect === 'read',
    destructiveHint: effect === 'destroy',
    idempotentHint: effect === 'read',
    openWorldHint: false,
  },
});

const failure = (text: string): object => ({ content: [{ type: 'text', text }], isError: true });

/** The text of an error that the caller may read. Undefined for one that nobody expected. */
function textOf(err: unknown, signal: AbortSignal): string | undefined {
  if (signal.aborted && !isAppError(err)) {
    const { reason } = signal as { reason: unknown };
    return isAppError(reason) ? reason.message : `The call took longer than ${MAX_CALL_MS / 60_000} minutes.`;
  }
  if (err instanceof ApiError) {
    const fields = err.validations.map(({ field, detail }) => `${field}: ${detail}`);
    return [err.message, err.detail, ...fields].filter(Boolean).join(' ');
  }
  if (err instanceof UnreachableError) return err.message;
  if (!isAppError(err) || err.code === 'internal') return undefined;
  return [err.message, err.detail].filter(Boolean).join(' ');
}

/** Rejects when the signal is aborted, although the work may not notice it. */
async function abortable<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
