// Whatever writes to the database takes a proof that somebody verified the right to write: `Allowed` (authorize.ts) where
// the policy allowed a person to act, `Ownership` and `Owned` (db/queries/job-ownership.ts) where a daemon reports on its
// job, and one of the kinds below everywhere else. A proof carries the ids that are written. It exists in types only: at
// run time it is the object that it was made of. scripts/queries.test.ts lists the files that may call each maker.

import type { Actor, UserActor } from './actor.ts';

declare const proven: unique symbol;

/** `Subject`, marked as verified. */
type Proof<Kind extends string, Subject> = Subject & { readonly [proven]: { readonly [K in Kind]: true } };

/** Proof that the server acts by itself: background tasks, start-up, upkeep. `systemTask` makes it of a system context. */
export type SystemTask = Proof<'system task', { readonly task: string }>;

/** @throws Error where a person or nobody acts. */
export function systemTask({ actor }: { actor: Actor }): SystemTask {
  if (actor.kind !== 'system')
    throw new Error(`A system task needs a system context, not one of kind "${actor.kind}".`);
  return { task: actor.name } as unknown as SystemTask;
}

/** Proof that a person signs in: made where a password or the handover of a session to an app's host is verified. */
export type VerifiedSignIn = Proof<'sign-in', { readonly userId: string }>;

export function verifiedSignIn(person: { userId: string }): VerifiedSignIn {
  return person as VerifiedSignIn;
}

/** Proof that a request or stream came with this token: made of its actor, which exists once the token is verified. */
export type VerifiedToken = Proof<'token', { readonly userId: string; readonly apiKeyId: string }>;

export function verifiedToken(actor: Pick<UserActor, 'kind' | 'id' | 'apiKeyId'>): VerifiedToken {
  return { userId: actor.id, apiKeyId: actor.apiKeyId } as unknown as VerifiedToken;
}

/** Proof that a daemon showed a valid credential: made where it joins. */
export type VerifiedDaemon<Subject> = Proof<'daemon', Subject>;

export function verifiedDaemon<Subject>(daemon: Subject): VerifiedDaemon<Subject> {
  return daemon as VerifiedDaemon<Subject>;
}

/** Proof that an agent showed its token or the identity of its instance: made where one of the two is verified. */
export type ConnectedAgent<Subject extends { id: string } = { id: string }> = Proof<'agent', Subject>;

export function connectedAgent<Subject extends { id: string }>(agent: Subject): ConnectedAgent<Subject> {
  return agent as ConnectedAgent<Subject>;
}
