import { exchangeIdentity } from '../../app/agent/identity/exchange.ts';
import type { IdentityTrust } from '../../app/agent/identity/trust.ts';
import { defineHandlers } from '../exchange.ts';

/** Exchanges the identity document of a cloud's machine for the token of its agent. */
export function instanceIdentityHandlers(trust: IdentityTrust) {
  return defineHandlers({
    'POST /workspaceagents/aws-instance-identity': (ctx, { body }) =>
      exchangeIdentity(ctx, trust, { cloud: 'aws', ...body }, body.agent_name),
    'POST /workspaceagents/azure-instance-identity': (ctx, { body }) =>
      exchangeIdentity(ctx, trust, { cloud: 'azure', ...body }, body.agent_name),
    'POST /workspaceagents/google-instance-identity': (ctx, { body }) =>
      exchangeIdentity(ctx, trust, { cloud: 'google', token: body.json_web_token }, body.agent_name),
  });
}
