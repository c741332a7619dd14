import { type Clock, errorText, type Logger, systemClock } from '@ropewalk/kit';
import { FIELD_MANAGER, isNotFound, type KubeClient } from '../kube/client.ts';
import { apiVersionOf, EVENTS, type KubeObject, kubeTime, type Resource } from '../kube/types.ts';

export type Report = (
  resource: Resource,
  object: KubeObject,
  type: 'Normal' | 'Warning',
  reason: string,
  message: string,
) => Promise<void>;

interface Event extends KubeObject {
  count: number;
}

interface Sent {
  namespace: string;
  name: string;
  count: number;
  writtenAt: number;
}

/** A repeated event is written again at most this often, with its count. */
const QUIET_MS = 60_000;
/** How many events it remembers for their counts. */
const REMEMBERED = 2_000;

/** Records Kubernetes events. The same event on the same object raises a count instead of making another object. */
export function createReporter(client: KubeClient, log: Logger, clock: Clock = systemClock): Report {
  const sent = new Map<string, Sent>();
  return async (resource, object, type, reason, message) => {
    const { namespace = '', name, uid = '' } = object.metadata;
    const key = JSON.stringify([uid, reason, message]);
    const at = clock.monotonic();
    const known = sent.get(key);
    const now = kubeTime(clock.now());
    try {
      if (known) {
        known.count++;
        if (at - known.writtenAt < QUIET_MS) return;
        known.writtenAt = at;
        await client.merge(EVENTS, known, { count: known.count, lastTimestamp: now });
        return;
      }
      const entry = { namespace, name: `${name}.${crypto.randomUUID()}`, count: 1, writtenAt: at };
      sent.set(key, entry);
      if (sent.size > REMEMBERED) sent.delete(sent.keys().next().value!);
      await client.create<Event & Record<string, unknown>>(EVENTS, {
        metadata: { namespace, name: entry.name },
        involvedObject: { apiVersion: apiVersionOf(resource), kind: resource.kind, namespace, name, uid },
        type,
        reason,
        message: message.slice(0, 1_024),
        count: 1,
        firstTimestamp: now,
        lastTimestamp: now,
        source: { component: FIELD_MANAGER },
        reportingComponent: FIELD_MANAGER,
        reportingInstance: FIELD_MANAGER,
      });
    } catch (err) {
      sent.delete(key);
      // the namespace is terminating, or the event has expired. A lost event must not fail a reconcile
      if (!isNotFound(err))
        log.warn('could not record an event', { object: `${namespace}/${name}`, reason, err: errorText(err) });
    }
  };
}
