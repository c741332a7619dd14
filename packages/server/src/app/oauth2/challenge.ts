import type { AppError } from '@ropewalk/kit';
import type { Actor } from '../../authz/actor.ts';
import { isFull } from '../../authz/scope.ts';
import type { Services } from '../context/context.ts';
import { resourceMetadataUrl } from './metadata.ts';

/**
 * The WWW-Authenticate header of an answer (RFC 6750), which leads clients to the server that gives tokens (RFC 9728).
 * Undefined: another token would not help.
 * @param sentToken without one, the answer names no error
 * @param resource the path of the part of the server that has its own metadata. Empty: the whole server
 */
export function challengeFor(
  services: Pick<Services, 'accessUrl'>,
  { code, detail = '' }: AppError,
  { actor, sentToken, resource = '' }: { actor: Actor | null; sentToken: boolean; resource?: string },
): string | undefined {
  const metadata = `resource_metadata="${resourceMetadataUrl(services, resource)}"`;
  const challenge = (error: string, description: string) =>
    `Bearer realm="coder", error="${error}", error_description="${description}", ${metadata}`;
  if (code === 'unauthenticated') {
    if (!sentToken) return `Bearer realm="coder", ${metadata}`;
    if (detail.includes('expired')) return challenge('invalid_token', 'The access token has expired');
    if (detail.includes('audience')) return challenge('invalid_token', 'The access token is for another resource');
    return challenge('invalid_token', 'The access token is invalid');
  }
  if (code !== 'forbidden' || actor?.kind !== 'user' || isFull(actor.scope)) return undefined;
  return challenge('insufficient_scope', 'The scope of the access token is too small');
}
