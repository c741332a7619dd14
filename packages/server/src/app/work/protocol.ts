import type { ErrorCode, Validation } from '@platform/kit';
import type { tasks } from './tasks.ts';

export type TaskName = keyof typeof tasks;
export type TaskInput<K extends TaskName> = Parameters<(typeof tasks)[K]>[0];
export type TaskOutput<K extends TaskName> = Awaited<ReturnType<(typeof tasks)[K]>>;

/** To a thread. It takes one task at a time. */
export interface Message {
  name: TaskName;
  input: TaskInput<TaskName>;
}

/** Bytes in a task or its result that can go to another thread without a copy: those that fill a buffer of their own. */
export function transferable(of: unknown): ArrayBuffer[] {
  if (typeof of !== 'object' || of === null || Array.isArray(of)) return [];
  if (!(of instanceof Uint8Array)) return Object.values(of).flatMap(transferable);
  return of.buffer instanceof ArrayBuffer && of.byteLength === of.buffer.byteLength ? [of.buffer] : [];
}

/** How a task ended. */
export type Verdict =
  | { value: unknown }
  | { error: { code: ErrorCode; message: string; detail?: string; validations?: Validation[] } };
