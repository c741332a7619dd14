import type { Duplex } from 'node:stream';
import type { Client } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';
import { type Static, type TObject, type TProperties, type TSchema, Type } from 'typebox';

/** An SSH connection to an agent, before its handshake. */
export interface AgentStream {
  stream: Duplex;
  /** Base64 of the only host key that is accepted. Undefined if the stream itself ends at the right agent. */
  hostKey: string | undefined;
}

/** What a coding agent reports about its work. */
export interface TaskReport {
  summary: string;
  /** Empty: none. */
  link: string;
  state: 'working' | 'complete' | 'idle' | 'failure';
}

/** What a tool may use during one call. */
export interface ToolContext {
  /** Calls the API as the caller, so that the API's permissions, limits and audit log hold. */
  client: Client;
  /** Aborted when the caller cancels the call, and after MAX_CALL_MS. */
  signal: AbortSignal;
  /** Opens an SSH connection to an agent, if the person may. @throws AppError, ApiError */
  openSsh(agentId: string, signal: AbortSignal): Promise<AgentStream>;
  /** Shows a report to the people who watch the task. Undefined: nobody does. */
  report: ((report: TaskReport) => Promise<void>) | undefined;
}

/** How a client may treat a tool: `read` changes nothing, `change` adds something, `destroy` may lose something. */
export type Effect = 'read' | 'change' | 'destroy';

export interface Tool {
  name: string;
  description: string;
  /** A JSON schema that describes an object. */
  input: TObject;
  effect: Effect;
  /** `agent`: without a person's session, over the agent's local socket. `user`: with a session. */
  needs: 'user' | 'agent';
  /** Where it is offered: `standard` everywhere, `task` with a task reporter, `search` for clients with two tools. */
  set: 'standard' | 'task' | 'search';
  /** Returns a value for JSON. @throws AppError, ApiError for the caller to read */
  run(ctx: ToolContext, args: never): Promise<unknown>;
}

interface ToolParts<P extends TProperties> {
  name: string;
  description: string;
  args: P;
  effect: Effect;
  needs?: Tool['needs'];
  set?: Tool['set'];
  run(ctx: ToolContext, args: Static<TObject<P>>): Promise<unknown>;
}

/** Defines a tool. Its arguments have the types of their schemas. */
export function tool<P extends TProperties>(parts: ToolParts<P>): Tool {
  const { args, needs = 'user', set = 'standard', ...rest } = parts;
  return { ...rest, needs, set, input: Type.Object(args, { additionalProperties: false }) as never } as Tool;
}

export const text = (description: string) => Type.String({ description });
export const optional = <T extends TSchema>(schema: T) => Type.Optional(schema);
/** An object whose values are texts. */
export const texts = (description: string) =>
  Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' }, description });

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** The value of an argument that is an id. @throws AppError `invalid` */
export function uuid(name: string, value: string): string {
  if (UUID.test(value)) return value;
  throw new AppError('invalid', `${name} must be a UUID, not ${JSON.stringify(value.slice(0, 100))}.`);
}

export const isUuid = (value: string): boolean => UUID.test(value);

/** Like `uuid`, for an argument that may be absent or empty. */
export const optionalUuid = (name: string, value: string | undefined): string | undefined =>
  value === undefined || value === '' ? undefined : uuid(name, value);

const MAX_NAMED = 5;

/**
 * Checks the arguments of a call against the tool's schema.
 * @throws AppError `invalid` with a text that lets a model correct its call
 */
export async function checkArguments({ name, input }: Tool, args: unknown): Promise<Record<string, unknown>> {
  const { Value } = await import('typebox/value');
  if (Value.Check(input, args)) return args as Record<string, unknown>;
  const problems = Value.Errors(input, args)
    .filter(({ keyword }) => keyword !== 'boolean')
    .slice(0, MAX_NAMED)
    .map(problemOf);
  const known = Object.keys(input.properties).join(', ') || 'none';
  throw new AppError('invalid', `Invalid arguments for ${name}: ${problems.join('; ')}. Arguments: ${known}.`);
}

function problemOf({
  instancePath: path,
  keyword,
  params,
  message,
}: {
  instancePath: string;
  keyword: string;
  params: unknown;
  message: string;
}): string {
  const at = path.slice(1).replaceAll('/', '.').slice(0, 100);
  const { requiredProperties, additionalProperties } = params as Record<string, string[] | undefined>;
  const inside = at === '' ? '' : ` in ${at}`;
  if (keyword === 'required') return `${requiredProperties?.join(', ')} is missing${inside}`;
  if (keyword === 'additionalProperties') {
    const names = additionalProperties?.slice(0, MAX_NAMED).map((one) => JSON.stringify(one.slice(0, 100)));
    return `${names?.join(', ')} is unknown${inside}`;
  }
  return at === '' ? `the arguments ${message}` : `${at} ${message}`;
}
