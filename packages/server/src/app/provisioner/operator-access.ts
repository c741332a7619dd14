import type { RouteKey } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { OperatorActor } from '../../authz/actor.ts';
import { type Services, systemContext } from '../context/context.ts';
import { locateOrganization } from '../find/organization.ts';
import { sameBytes, sha256 } from '../values/token.ts';

const LEAST_LENGTH = 32;

/** What the operator may call. The policy limits it to its organization there. */
const ROUTES: ReadonlySet<RouteKey> = new Set([
  'GET /events',
  'GET /organizations/{organization}',
  'GET /organizations/{organization}/provisionerdaemons',
  'GET /organizations/{organization}/provisionerjobs',
  'GET /organizations/{organization}/provisionerkeys',
  'POST /organizations/{organization}/provisionerkeys',
  'DELETE /organizations/{organization}/provisionerkeys/{provisionerkey}',
]);

/** Verifies the token of the Kubernetes operator. Returns undefined for any other token, without a promise. */
export type OperatorAccess = (route: RouteKey, token: string) => Promise<OperatorActor> | undefined;

/** @throws AppError `invalid` if the configured token is too short to be a secret */
export function operatorAccess(services: Services): OperatorAccess {
  const { operatorToken, operatorOrganization } = services.config;
  if (operatorToken === '') return () => undefined;
  if (operatorToken.length < LEAST_LENGTH)
    throw new AppError('invalid', `--operator-token must have at least ${LEAST_LENGTH} characters.`);
  const expected = sha256(operatorToken);
  const enter = async (route: RouteKey): Promise<OperatorActor> => {
    if (!ROUTES.has(route)) {
      throw new AppError('forbidden', 'Forbidden.', {
        detail: "The operator's token can only manage provisioner keys and read daemons and jobs.",
      });
    }
    const { organizationId } = await locateOrganization(
      systemContext(services, 'operator access'),
      operatorOrganization,
    ).catch((err) => {
      const detail = `There is no organization "${operatorOrganization}". Set --operator-organization to an existing one.`;
      throw err instanceof AppError
        ? new AppError('unauthenticated', 'The operator has no organization.', { detail })
        : err;
    });
    return { kind: 'operator', organizationId };
  };
  return (route, token) => (sameBytes(sha256(token), expected) ? enter(route) : undefined);
}
