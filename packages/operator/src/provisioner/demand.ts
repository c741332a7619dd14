// How many daemons the queue asks for, for scalers of others: KEDA and the HorizontalPodAutoscaler.
import type { Provisioner } from '../crd/provisioner.ts';
import { keyOf as nameOf } from '../machinery/informer.ts';
import type { World } from '../world.ts';
import { knownKeys } from './keys.ts';
import { demandOf } from './scale.ts';
import { resolveTarget } from './target.ts';

export type Demand = ReturnType<typeof demandOf>;

/** The demand by the last poll of the provisioner's server. @throws ServerProblem. */
export async function currentDemand(world: World, provisioner: Provisioner): Promise<Demand> {
  const { target } = await resolveTarget(provisioner, world);
  const { state } = await world.servers.read(nameOf(provisioner), target);
  const keys = knownKeys(world, provisioner).map(({ name }) => name);
  const daemons = state.daemons.filter(({ key_name }) => keys.includes(key_name ?? ''));
  return demandOf({ provisioner, daemons, pending: state.pending });
}

/** A daemon for each running build and each waiting job. */
export const daemonsNeeded = ({ pending, busy }: Demand): number => pending + busy;
