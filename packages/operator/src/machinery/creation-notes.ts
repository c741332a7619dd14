// Some things on a server have a text that it shows once, when they are created, before that text can be stored in the cluster.
// If the operator ends in between, nobody has the text. So the operator notes the creation on the resource first, in the write
// that also sets the finalizer. People may change the note, so a proof shows that the operator wrote it.
import type { Clock } from '@ropewalk/kit';
import type { KubeClient } from '../kube/client.ts';
import type { KubeObject, Resource } from '../kube/types.ts';
import type { Informer } from './informer.ts';
import type { Proofs } from './proofs.ts';

/** How long a creation takes, and how much the clocks of the operator and the server may differ, in ms. */
const AROUND_MS = 60_000;

/** What the operator was about to create. */
export type Noted<Field extends string> = Record<Field, string> & {
  /** When it was noted. A thing of this name from another time belongs to someone else. */
  at: string;
};

export interface CreationNotes<Owner extends KubeObject, Field extends string> {
  /** What the operator was about to create. It may exist, and its text may be stored. Undefined as well for a note of someone else. */
  read(proofs: Proofs, owner: Owner): Noted<Field> | undefined;
  /** Notes what is created next, and that a deletion of the owner waits for the operator. */
  write(
    parts: { client: KubeClient; clock: Clock; proofs: Proofs },
    informer: Pick<Informer<Owner>, 'store'>,
    owner: Owner,
    what: Record<Field, string>,
  ): Promise<Owner>;
}

/** `kind` and `fields`, in this order, are what the proof is about. */
export function creationNotes<Owner extends KubeObject, Field extends string>({
  resource,
  annotation,
  finalizer,
  kind,
  fields,
}: {
  resource: Resource;
  annotation: string;
  finalizer: string;
  kind: string;
  fields: readonly Field[];
}): CreationNotes<Owner, Field> {
  const noteOf = (what: Record<Field, string>, at: string) =>
    ({ ...Object.fromEntries(fields.map((field) => [field, what[field]])), at }) as Noted<Field>;
  const words = ({ metadata }: Owner, note: Noted<Field>) => [
    kind,
    metadata.namespace!,
    metadata.name,
    ...fields.map((field) => note[field]),
    note.at,
  ];
  return {
    read(proofs, owner) {
      const text = owner.metadata.annotations?.[annotation];
      if (text === undefined) return undefined;
      try {
        const given = JSON.parse(text) as Noted<Field> & { proof: unknown };
        const note = noteOf(given, given.at);
        return proofs.holds(given.proof, words(owner, note)) ? note : undefined;
      } catch {
        return undefined;
      }
    },
    async write({ client, clock, proofs }, informer, owner, what) {
      const { namespace = '', name, resourceVersion, finalizers = [] } = owner.metadata;
      const note = noteOf(what, clock.now().toISOString());
      const text = JSON.stringify({ ...note, proof: proofs.of(words(owner, note)) });
      const noted = await client.merge<Owner>(
        resource,
        { namespace, name },
        {
          metadata: {
            resourceVersion,
            finalizers: [...finalizers.filter((each) => each !== finalizer), finalizer],
            annotations: { [annotation]: text },
          },
        },
      );
      informer.store(noted);
      return noted;
    },
  };
}

/** Whether a server created something at the time of a note. */
export const isOfThatTime = ({ at }: { at: string }, { created_at }: { created_at: string }): boolean =>
  Math.abs(Date.parse(created_at) - Date.parse(at)) <= AROUND_MS;
