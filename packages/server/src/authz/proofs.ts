// Every write to the database takes a proof that the writer is permitted: `Allowed` (authorize.ts) if the policy
// allowed a person to act, `Ownership` and `Owned` (db/owned.ts) if a daemon reports on its job, and
// one of the kinds below otherwise. A proof contains the ids to write. It exists in types only: at run time it is the
// original object. scripts/queries.test.ts lists the files that may call each function that creates a proof.

import type { Actor, UserActor } from './actor.ts';

declare const proven: unique symbol;

/** `Subject`, marked as verified. */
type Proof<Kind extends string, Subject> = Subject & { readonly [proven]: { readonly [K in Kind]: true } };

/**
 * Proof that the server acts by itself: background tasks, start-up, upkeep. `systemTask` creates it from a system
 * context.
 */
export type SystemTask = Proof<'system task', { readonly task: string }>;

/** Creates the proof from a system context. @throws Error for a context of any other kind. */
export function systemTask({ actor }: { actor: Actor }): SystemTask {
  if (actor.kind !== 'system')
    throw new Error(`A system task needs a system context, not one of kind "${actor.kind}".`);
  return { task: actor.name } as unknown as SystemTask;
}

/** Proof that a person signs in. Created where a password or the handover of a session to an app's host is verified. */
export type VerifiedSignIn = Proof<'sign-in', { readonly userId: string }>;

export function verifiedSignIn(person: { userId: string }): VerifiedSignIn {
  return person as VerifiedSignIn;
}

/** Proof that a request or stream uses this token. Created from its actor, which exists once the token is verified. */
export type VerifiedToken = Proof<'token', { readonly userId: string; readonly apiKeyId: string }>;

export function verifiedToken(actor: Pick<UserActor, 'kind' | 'id' | 'apiKeyId'>): VerifiedToken {
  return { userId: actor.id, apiKeyId: actor.apiKeyId } as unknown as VerifiedToken;
}

/** Proof that a daemon has a valid credential. Created when it connects. */
export type VerifiedDaemon<Subject> = Proof<'daemon', Subject>;

/** Creates the proof. The caller must have verified the credential of the daemon. */
export function verifiedDaemon<Subject>(daemon: Subject): VerifiedDaemon<Subject> {
  return daemon as VerifiedDaemon<Subject>;
}

/**
 * Proof that an agent sent its token or proved the identity of its instance. Created where one of these is verified.
 */
export type ConnectedAgent<Subject extends { id: string } = { id: string }> = Proof<'agent', Subject>;

export function connectedAgent<Subject extends { id: string }>(agent: Subject): ConnectedAgent<Subject> {
  return agent as ConnectedAgent<Subject>;
}

/** Proof that a request has the token of this workspace proxy. Created where the token is verified. */
export type VerifiedProxy<Subject extends { id: string } = { id: string }> = Proof<'proxy', Subject>;

export function verifiedProxy<Subject extends { id: string }>(proxy: Subject): VerifiedProxy<Subject> {
  return proxy as VerifiedProxy<Subject>;
}
