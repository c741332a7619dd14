import type { IncomingMessage, ServerResponse } from 'node:http';
import { isAppError } from '@ropewalk/kit';
import type { AppKind } from '../../app/values/app-address.ts';
import { BadAnswer } from './answer-parser.ts';
import { type Refusal, refuse } from './pages.ts';
import { AppClosed, type Target } from './pool.ts';

/** One request, as the server sends it to an app. */
export interface Plan {
  target: Target;
  kind: AppKind;
  /** The request target for the app. */
  path: string;
  /** Of the browser. */
  forwardedFor: string;
  host: string;
  /** The host, without its port. */
  hostName: string;
  proto: string;
  /** Further headers for the answer, in raw form. */
  answerHeaders: readonly string[];
  /** Further headers that are added only if the app does not itself say which origins may read its answers. */
  cors: readonly string[];
  /** Called when the connection to the app or the app itself fails. */
  explain(err: Error): Promise<Refusal>;
}

/** Answers with the reason of a failure, after `explain` has looked for one. Never fails. */
export function explained(request: IncomingMessage, response: ServerResponse, plan: Plan, err: Error): void {
  plan
    .explain(err)
    .then((refusal) => refuse(request, response, refusal))
    .catch(() => response.destroy());
}

/** The page for an error between the server and an app, if nothing more is known. */
export function refusalOf(err: Error): Refusal {
  if (isAppError(err, 'timeout')) return { status: 504, title: 'The app does not answer.', detail: err.message };
  if (isAppError(err))
    return { status: 502, title: 'The app cannot be reached.', detail: `${err.message} Is it running?` };
  const { code } = err as NodeJS.ErrnoException;
  const bad = err instanceof BadAnswer || code?.startsWith('HPE_') || code?.startsWith('ERR_');
  if (bad) {
    const detail = `Its answer is not valid HTTP/1.1: ${code === 'HPE_HEADER_OVERFLOW' ? 'its headers are too large' : err.message}.`;
    return { status: 502, title: 'The app sent an invalid answer.', detail };
  }
  const cause = err instanceof AppClosed ? '' : ` (${err.message})`;
  return {
    status: 502,
    title: 'The app gave no answer.',
    detail: `The app closed the connection before it answered${cause}.`,
  };
}
