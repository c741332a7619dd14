import { AppError } from '@ropewalk/kit';
import { agentsByInstance } from '../../../db/queries/agents.ts';
import type { Ctx } from '../../context/context.ts';
import { awsInstanceId } from './aws.ts';
import { azureInstanceId } from './azure.ts';
import { googleInstanceId } from './google.ts';
import type { IdentityTrust } from './trust.ts';

/** A machine's proof of its identity, by cloud. */
export type InstanceProof =
  | { cloud: 'aws'; document: string; signature: string }
  | { cloud: 'azure'; signature: string; encoding: string }
  | { cloud: 'google'; token: string };

/**
 * Returns the agent token for a machine that proves its identity. A name chooses one of its agents. Throws
 * `unauthenticated` for an invalid proof, `not_found` for a machine without an agent, `invalid` if its agent does not
 * belong to a workspace's latest build, `conflict` if two agents claim it.
 */
export async function exchangeIdentity(
  ctx: Ctx,
  trust: IdentityTrust,
  proof: InstanceProof,
  agentName: string | undefined,
): Promise<{ session_token: string }> {
  const id = await instanceId(ctx, trust, proof);
  const [agent, other] = await agentsByInstance(ctx.sql, id, agentName);
  if (!agent) {
    const which = agentName === undefined ? 'agent' : `agent ${JSON.stringify(agentName)}`;
    throw new AppError('not_found', `No ${which} is registered for the instance ${JSON.stringify(id)}.`);
  }
  if (agent.job_type !== 'workspace_build')
    throw new AppError('invalid', 'The agent of this instance does not belong to a workspace.');
  if (!agent.may_report) {
    throw new AppError('invalid', 'The agent of this instance does not belong to the latest build of its workspace.');
  }
  if (other?.may_report) {
    throw new AppError('conflict', `Two agents are registered for the instance ${JSON.stringify(id)}.`, {
      detail: 'Only one agent can use an instance ID. Rebuild or delete the workspace that does not own the instance.',
    });
  }
  return { session_token: agent.auth_token };
}

async function instanceId(ctx: Ctx, trust: IdentityTrust, proof: InstanceProof): Promise<string> {
  switch (proof.cloud) {
    case 'aws':
      return awsInstanceId(proof, await trust.awsCertificates());
    case 'azure':
      return azureInstanceId(proof, await trust.azure(), ctx.clock.now());
    case 'google':
      return googleInstanceId(proof.token, (kid) => trust.googleKeys(kid), ctx.clock.now());
  }
}
