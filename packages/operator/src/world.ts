import type { Clock, Logger } from '@ropewalk/kit';
import type { Caches } from './caches.ts';
import type { KubeClient } from './kube/client.ts';
import type { Lookup } from './kube/lookup.ts';
import type { Changes } from './machinery/changes.ts';
import type { Report } from './machinery/events.ts';
import type { Proofs } from './machinery/proofs.ts';
import type { MovedKeys } from './provisioner/delete-key.ts';
import type { Servers } from './provisioner/server.ts';
import type { UncollectedKeys } from './provisioner/uncollected.ts';

/** The dependencies of all reconcilers, created once at start. */
export interface World {
  client: KubeClient;
  caches: Caches;
  lookup: Lookup;
  servers: Servers;
  /** Notified when the demand for daemons may have changed. */
  demandChanges: Changes;
  uncollected: UncollectedKeys;
  movedKeys: MovedKeys;
  /** The API token that was used last for each CoderWorkspaceProxy with `bootstrap`, and its server. */
  proxyTokens: Map<string, { url: string; token: string }>;
  proofs: Proofs;
  report: Report;
  clock: Clock;
  log: Logger;
  /** The image of a control plane that names none. */
  defaultImage: string;
}
