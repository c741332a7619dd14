import type { ErrorCode, Validation } from '@ropewalk/kit';
import type { tasks } from './tasks.ts';

export type TaskName = keyof typeof tasks;
export type TaskInput<K extends TaskName> = Parameters<(typeof tasks)[K]>[0];
export type TaskOutput<K extends TaskName> = Awaited<ReturnType<(typeof tasks)[K]>>;

/** A message to a thread, which runs one task at a time. */
export interface Message {
  name: TaskName;
  input: TaskInput<TaskName>;
}

/**
 * The buffers in a task or its result that can move to another thread without a copy: those whose bytes fill the whole
 * buffer.
 */
export function transferable(of: unknown): ArrayBuffer[] {
  if (typeof of !== 'object' || of === null || Array.isArray(of)) return [];
  if (!(of instanceof Uint8Array)) return Object.values(of).flatMap(transferable);
  return of.buffer instanceof ArrayBuffer && of.byteLength === of.buffer.byteLength ? [of.buffer] : [];
}

/** How a task ended. */
export type Verdict =
  | { value: unknown }
  | { error: { code: ErrorCode; message: string; detail?: string; validations?: Validation[] } };
