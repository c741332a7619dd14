/**
 * Shares a few turns between templates. A build of a slow template can take seconds to begin, so a template that has many
 * of them must not keep the builds of other templates waiting.
 */
import type { Clock } from '@ropewalk/kit';

/** Something to do for a workspace or a pool of this template. */
export interface OfTemplate {
  template_id: string;
}

export interface TurnLimits {
  /** The maximum number of items at a time. */
  most: number;
  /** The maximum number of items of one template at a time. Default: `most`. */
  mostOfTemplate?: number;
}

/**
 * The index of the waiting item that comes next: the first one of the template with the fewest running items. So a single
 * template gets all turns, and several share them. Undefined if nothing may begin now.
 */
export function nextTurn(
  waiting: readonly OfTemplate[],
  running: Iterable<OfTemplate>,
  { most, mostOfTemplate = most }: TurnLimits,
): number | undefined {
  const count = new Map<string, number>();
  let all = 0;
  for (const { template_id: id } of running) {
    all += 1;
    count.set(id, (count.get(id) ?? 0) + 1);
  }
  if (all >= most) return undefined;
  let next: number | undefined;
  let fewest = mostOfTemplate;
  for (const [index, { template_id: id }] of waiting.entries()) {
    const ofTemplate = count.get(id) ?? 0;
    if (ofTemplate >= fewest) continue;
    next = index;
    fewest = ofTemplate;
    if (fewest === 0) break;
  }
  return next;
}

/** Items that wait for their turn, and those that run. */
export class TemplateTurns<T extends OfTemplate> {
  readonly #work: (item: T) => Promise<void>;
  readonly #limits: TurnLimits;
  readonly #waiting: T[] = [];
  readonly #running = new Map<T, Promise<void>>();

  /** `work` must not reject. */
  constructor(limits: TurnLimits, work: (item: T) => Promise<void>) {
    this.#limits = limits;
    this.#work = work;
  }

  /** The number of items that wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** The number of items that run. */
  get running(): number {
    return this.#running.size;
  }

  /** The ids of the templates with items that wait or run. */
  get templates(): string[] {
    return [...new Set([...this.#waiting, ...this.#running.keys()].map(({ template_id: id }) => id))];
  }

  /** Adds items behind those that wait. */
  add(items: readonly T[]): void {
    this.#waiting.push(...items);
  }

  /** Begins the items whose turn it is. */
  begin(): void {
    for (;;) {
      const index = nextTurn(this.#waiting, this.#running.keys(), this.#limits);
      if (index === undefined) return;
      const [item] = this.#waiting.splice(index, 1) as [T];
      this.#running.set(
        item,
        this.#work(item).finally(() => void this.#running.delete(item)),
      );
    }
  }

  /** Resolves when a running item has ended, at the latest after `ms`. */
  async oneEnded(clock: Clock, ms: number): Promise<void> {
    const over = new AbortController();
    const late = clock.sleep(Math.max(0, ms), over.signal).catch(() => {});
    await Promise.race([...this.#running.values(), late]);
    over.abort();
  }

  /** Resolves when all running items have ended. No further item begins meanwhile. */
  async allEnded(): Promise<void> {
    await Promise.all(this.#running.values());
  }
}
