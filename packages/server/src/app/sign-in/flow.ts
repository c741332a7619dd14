/**
 * One sign-in at a provider: the browser leaves for the provider and comes back to the same route. Meanwhile it keeps the
 * flow's secrets in its own encrypted cookie, so that strangers can start any number of flows without filling the
 * database, and nobody can finish a flow in another browser.
 */
import { randomBytes } from 'node:crypto';
import { AppError, type Clock } from '@ropewalk/kit';
import type { Events } from '../../db/events.ts';
import type { AppTokens } from '../context/sealed-tokens.ts';
import { sameBytes, sha256 } from '../values/token.ts';
import type { FlowSecrets } from './provider.ts';

/** The longest time that a person may take at the provider, in ms. */
export const FLOW_MS = 10 * 60_000;
/** The maximum number of finished flows, on all servers, that a server remembers. Beyond them, the oldest are forgotten. */
const MAX_USED = 10_000;

export interface Flow extends FlowSecrets {
  /** A path of this server. */
  redirect: string;
  /** The id of the person who turns a password account into one of this provider. */
  convert?: string | undefined;
  /** The id of the session that may complete the flow. Absent for a sign-in, which has no session yet. */
  session?: string | undefined;
}

interface Sealed extends Flow {
  expires: number;
}

export interface Flows {
  /** Starts a flow. The text is for the cookie with this name. */
  start(
    provider: string,
    target: Pick<Flow, 'redirect' | 'convert' | 'session'>,
  ): { flow: Flow; name: string; text: string };
  /** The name of the cookie that a callback with this state needs. */
  cookieOf(state: string): string;
  /** The flow of a cookie. @throws AppError `unauthenticated` if it does not belong to this state, or is finished */
  read(provider: string, state: string, text: string | undefined): Flow;
  /** Nobody can read the flow of this state any more. */
  finish(state: string): void;
}

const digest = (state: string) => sha256(state).toString('base64url');
const random = () => randomBytes(32).toString('base64url');
const purpose = (provider: string) => `sign in with ${provider}`;

export function createFlows(
  tokens: Pick<AppTokens, 'seal' | 'unseal'>,
  clock: Clock,
  events: Pick<Events, 'on' | 'onPublish' | 'publishSoon'>,
): Flows {
  /** The digests of states. */
  const used = new Set<string>();
  const use = ({ state }: { state: string }) => {
    if (used.size >= MAX_USED) used.delete(used.values().next().value!);
    used.add(state);
  };
  events.onPublish('sign_in_completed', use);
  events.on('sign_in_completed', use);
  const cookieOf = (state: string) => `coder_sign_in_${state.replaceAll(/[^\w-]/g, '').slice(0, 12)}`;
  const failed = (detail: string) =>
    new AppError('unauthenticated', 'The sign-in could not be completed.', { detail: `${detail} Sign in again.` });
  return {
    cookieOf,
    start(provider, target) {
      const flow = { ...target, state: random(), nonce: random(), pkceVerifier: random() };
      const sealed: Sealed = { ...flow, expires: clock.now().getTime() + FLOW_MS };
      return { flow, name: cookieOf(flow.state), text: tokens.seal(purpose(provider), sealed) };
    },
    read(provider, state, text) {
      const sealed = text === undefined ? undefined : tokens.unseal<Sealed>(purpose(provider), text);
      if (!sealed) throw failed('It was started in another browser or too long ago.');
      if (sealed.expires <= clock.now().getTime()) throw failed('It took too long.');
      if (!sameBytes(Buffer.from(sealed.state), Buffer.from(state))) throw failed('Its state does not match.');
      if (used.has(digest(state))) throw failed('It was completed before.');
      return sealed;
    },
    finish(state) {
      events.publishSoon('sign_in_completed', { state: digest(state) });
    },
  };
}

/** The path of this server that a text names. Anything else, such as another site's address, becomes `/`. */
export function ownPath(text: string | undefined, accessUrl: string): string {
  if (!text || text.length > 2_000) return '/';
  try {
    const origin = new URL(accessUrl).origin;
    const url = new URL(text, origin);
    const path = url.pathname + url.search + url.hash;
    // a path that starts with two slashes would name another server
    return url.origin === origin && !path.startsWith('//') ? path : '/';
  } catch {
    return '/';
  }
}
