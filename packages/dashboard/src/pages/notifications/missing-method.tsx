import { methodName } from './methods.ts';

/** Says in the row of a notification that it reaches the inbox alone, and why. */
export function MissingMethod({ method }: { method: string | undefined }) {
  if (!method) return null;
  return <div className="text-muted text-sm">Inbox only: {methodName(method).toLowerCase()} is not configured.</div>;
}
