import type { Recipient, Rendered } from './render.ts';
import type { Template } from './templates.ts';

/** A message as a method sends it. */
export interface Outgoing {
  id: string;
  template: Template;
  recipient: Recipient;
  labels: Readonly<Record<string, string>>;
  targets: readonly string[];
  rendered: Rendered;
  createdAt: Date;
}

/** Sends a message. Throws if it was not sent; the message is then tried again later. */
export type Send = (message: Outgoing, signal: AbortSignal) => Promise<void>;

/** No further attempt can succeed. */
export class PermanentFailure extends Error {}
