import { createHash } from 'node:crypto';
import { PROMPT_PARAMETER } from '@ropewalk/rules/task';

type Env = Readonly<Record<string, string>>;

export const sha256Hex = (text: string): string => createHash('sha256').update(text).digest('hex');

/**
 * The value chosen for a parameter. Undefined without one. Names are hashed, because they can contain any character.
 */
export const parameterValue = (env: Env, name: string): string | undefined => env[`CODER_PARAMETER_${sha256Hex(name)}`];

/** The parameter's value in the previous build. */
export const previousParameterValue = (env: Env, name: string): string | undefined =>
  env[`CODER_PARAMETER_PREVIOUS_${sha256Hex(name)}`];

/** The token of an agent that is already running and must keep it (claim of a prebuilt workspace). */
export function runningAgentToken(env: Env, agentId: string): string | undefined {
  const prefix = 'CODER_RUNNING_WORKSPACE_AGENT_TOKEN_';
  return env[prefix + sha256Hex(agentId)] || env[prefix + sha256Hex('')] || undefined;
}

export const NIL = '00000000-0000-0000-0000-000000000000';

/** The id of the task that the workspace is built for. Undefined without a task. */
export function taskId(env: Env): string | undefined {
  const id = (env['CODER_TASK_ID'] ?? '').toLowerCase();
  return id !== NIL && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(id) ? id : undefined;
}

/** The task's prompt: its own variable, else the parameter that older templates used. */
export const taskPrompt = (env: Env): string => env['CODER_TASK_PROMPT'] || parameterValue(env, PROMPT_PARAMETER) || '';

/** A UUID that is always the same for the same words: a data source must not look changed after another read. */
export function stableId(...words: string[]): string {
  const hex = sha256Hex(words.join('\0'));
  const variant = ((Number.parseInt(hex[16]!, 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** Parses a JSON array from a variable. Null, empty and absent give an empty array. Throws for anything else. */
export function jsonArray(env: Env, name: string): unknown[] {
  const text = env[name];
  if (!text) return [];
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(`${name} is not valid JSON`);
  }
  if (value === null) return [];
  if (!Array.isArray(value)) throw new Error(`${name} is not a JSON array`);
  return value;
}
