import type { IncomingMessage } from 'node:http';
import type { AppGrant } from '../../app/context/sealed-tokens.ts';
import type { AppAddress } from '../../app/values/app-address.ts';
import type { Refusal } from './pages.ts';

/** Who may use which app: the decisions that a proxy of apps needs. All of its requests pass through one. */
export interface AppDoor {
  /** Whether browsers sign in elsewhere for path apps, too, and bring a handover back. */
  readonly redeemsOnPaths: boolean;
  /** The grant that a request brings, if it is valid for this app now. Needs no query. */
  held(request: IncomingMessage, address: AppAddress): AppGrant | undefined;
  /**
   * A new grant for the visitor, and the cookie with it.
   * @throws AppError `unauthenticated` for a visitor who has to sign in, `not_found`, `forbidden`, `unavailable`
   */
  enter(request: IncomingMessage, address: AppAddress): Promise<{ grant: AppGrant; cookie: string }>;
  /** The grant of a visitor without a session, if everyone may use the app. Counts as no use of it. */
  forAnyone(address: AppAddress): Promise<AppGrant | undefined>;
  /** Starts the session at an app's host for a browser that comes back from signing in. Returns its cookie. */
  redeem(request: IncomingMessage, handover: string, address: AppAddress): Promise<string>;
  /** The address where a browser signs in and from which it comes back. */
  signInAddress(request: IncomingMessage, address: AppAddress): string;
  /** Calls `end` once the grant's user may no longer use the app. Returns a function that stops watching. */
  watch(grant: AppGrant, address: AppAddress, end: () => void): () => void;
  /** Why the grant's agent cannot be reached. Undefined when it appears to be connected. */
  explainAgent(grant: AppGrant): Promise<Omit<Refusal, 'status'> | undefined>;
  close(): void;
}
