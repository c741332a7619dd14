import { AppError } from '@ropewalk/kit';

const MAX_NODES = 100_000;
const QUOTED = String.raw`"((?:[^"\\]|\\.)*)"`;
const EDGE = new RegExp(String.raw`^\s*${QUOTED}\s*->\s*${QUOTED}`);
const NODE = new RegExp(String.raw`^\s*${QUOTED}\s*\[\s*label\s*=\s*${QUOTED}`);

/** The dependency graph that `terraform graph` prints. An edge goes from a node to its dependency. */
export class Graph {
  /** The ids of the nodes of each label. */
  readonly #byLabel = new Map<string, string[]>();
  readonly #labels = new Map<string, string>();
  readonly #below = new Map<string, string[]>();
  readonly #above = new Map<string, string[]>();

  /** @throws AppError `too_large` over 100 000 nodes. */
  static parse(dot: string): Graph {
    const graph = new Graph();
    for (const line of dot.split('\n')) {
      const edge = EDGE.exec(line);
      if (edge) {
        graph.#link(edge[1]!, edge[2]!);
        continue;
      }
      const node = NODE.exec(line);
      if (!node) continue;
      const label = unquote(node[2]!);
      graph.#labels.set(node[1]!, label);
      push(graph.#byLabel, label, node[1]!);
      if (graph.#labels.size > MAX_NODES) throw new AppError('too_large', `The graph has over ${MAX_NODES} nodes.`);
    }
    return graph;
  }

  /** The labels of all nodes. */
  get labels(): string[] {
    return [...this.#byLabel.keys()];
  }

  /**
   * The nearest node that `wanted` accepts among dependants (`up`) or dependencies (`down`). Among equally near nodes
   * it is the one with the smallest label.
   */
  nearest(label: string, direction: 'up' | 'down', wanted: (label: string) => boolean): string | undefined {
    const next = direction === 'up' ? this.#above : this.#below;
    const seen = new Set(this.#byLabel.get(label) ?? []);
    let level = [...seen];
    while (level.length > 0) {
      const found: string[] = [];
      const following: string[] = [];
      for (const id of level)
        for (const neighbour of next.get(id) ?? []) {
          if (seen.has(neighbour)) continue;
          seen.add(neighbour);
          following.push(neighbour);
          const name = this.#labels.get(neighbour);
          if (name !== undefined && wanted(name)) found.push(name);
        }
      if (found.length > 0) return found.sort()[0];
      level = following;
    }
    return undefined;
  }

  #link(from: string, to: string): void {
    push(this.#below, from, to);
    push(this.#above, to, from);
  }
}

function unquote(text: string): string {
  return text.replace(/\\(.)/g, '$1');
}

function push(map: Map<string, string[]>, key: string, value: string): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
