import { EvaluationError } from '../values.ts';

const MAX_NODES = 20_000;
/** The maximum number of visits of edges while detours are found. */
const MAX_VISITS = 5_000_000;

/** A graph without circles. An edge goes from a node to its dependency. */
export class AcyclicGraph {
  readonly #below = new Map<string, Set<string>>();

  add(id: string): void {
    if (!this.#below.has(id)) this.#below.set(id, new Set());
    if (this.#below.size > MAX_NODES) throw new EvaluationError(`The template has over ${MAX_NODES} parts.`);
  }

  link(from: string, to: string): void {
    this.add(from);
    this.add(to);
    this.#below.get(from)!.add(to);
  }

  /**
   * The graph without each edge whose end can be reached on a longer path (the transitive reduction).
   * @throws EvaluationError if it has a circle, or takes too long
   */
  withoutDetours(): AcyclicGraph {
    this.#checkCircles();
    const reduced = new AcyclicGraph();
    let visits = 0;
    for (const [id, direct] of this.#below) {
      reduced.add(id);
      const longer = new Set<string>();
      const open = [...direct];
      // the list grows while it is read
      for (const node of open)
        for (const next of this.#below.get(node)!) {
          if (++visits > MAX_VISITS) throw new EvaluationError('The template has too many references.');
          if (longer.has(next)) continue;
          longer.add(next);
          open.push(next);
        }
      for (const to of direct) if (!longer.has(to)) reduced.link(id, to);
    }
    return reduced;
  }

  /** In the language of Graphviz, as Terraform writes it. */
  dot(labels: ReadonlyMap<string, string>): string {
    const quoted = (text: string) => JSON.stringify(text);
    const lines = [...labels].map(([id, label]) => `${quoted(`[root] ${id}`)} [label = ${quoted(label)}]`);
    for (const [id, below] of this.#below)
      for (const to of below) lines.push(`${quoted(`[root] ${id}`)} -> ${quoted(`[root] ${to}`)}`);
    return `digraph {\n${lines.map((line) => `\t${line}\n`).join('')}}\n`;
  }

  /** Removes nodes without dependants until none is left. */
  #checkCircles(): void {
    const dependants = new Map<string, number>([...this.#below.keys()].map((id) => [id, 0]));
    for (const below of this.#below.values()) for (const to of below) dependants.set(to, dependants.get(to)! + 1);
    const free = [...dependants].filter(([, count]) => count === 0).map(([id]) => id);
    // the list grows while it is read
    for (const id of free)
      for (const to of this.#below.get(id)!) {
        const left = dependants.get(to)! - 1;
        dependants.set(to, left);
        if (left === 0) free.push(to);
      }
    if (free.length < this.#below.size) throw new EvaluationError('The template has a circle of references.');
  }
}
