import { errorText } from '@ropewalk/kit';
import type { Services } from '../../app/context/context.ts';
import { versionsOfSecrets } from '../../app/user/agent-secrets.ts';

/** The agents that are connected to this server. */
export interface SecretHolders {
  /** The id and the owner's id of each. */
  all(): Iterable<{ id: string; ownerId: string }>;
  /** Makes these agents fetch their secrets again. */
  refresh(isFor: (agent: { id: string; ownerId: string }) => boolean): void;
}

/** Makes connected agents fetch the secrets of their owners again after these have changed on any server. */
export class SecretChanges {
  readonly #services: Services;
  readonly #holders: SecretHolders;
  readonly #off: (() => void)[];
  /** The version of the secrets that an agent has fetched, by the agent's id. */
  readonly #fetched = new Map<string, string>();

  constructor(services: Services, holders: SecretHolders) {
    this.#services = services;
    this.#holders = holders;
    this.#off = [
      services.events.on('user_secrets_changed', ({ user_id: id }) => holders.refresh(({ ownerId }) => ownerId === id)),
      services.events.onResync(() => void this.#compare()),
    ];
  }

  fetched(agentId: string, version: string): void {
    this.#fetched.set(agentId, version);
  }

  left(agentId: string): void {
    this.#fetched.delete(agentId);
  }

  close(): void {
    for (const stop of this.#off) stop();
  }

  /** Finds the changes of lost events. */
  async #compare(): Promise<void> {
    const owners = new Set([...this.#holders.all()].map(({ ownerId }) => ownerId));
    if (owners.size === 0) return;
    try {
      const versions = await versionsOfSecrets(this.#services, [...owners]);
      this.#holders.refresh(({ id, ownerId }) => {
        const fetched = this.#fetched.get(id);
        return fetched !== undefined && fetched !== (versions.get(ownerId) ?? '');
      });
    } catch (err) {
      this.#services.log.warn('could not look for changed secrets', { err: errorText(err) });
    }
  }
}
