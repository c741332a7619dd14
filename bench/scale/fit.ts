// A straight line through measured points: what the first one costs, what each further one costs, and how wrong that is.

export interface Point {
  x: number;
  y: number;
}

export interface Line {
  base: number;
  each: number;
  /** The largest distance of a point from the line, as a share of the point's value. */
  error: number;
}

/** The line with the least squares of relative distances, so that small and large deployments count alike. */
export function fitLine(points: readonly Point[]): Line {
  if (new Set(points.map(({ x }) => x)).size < 2) throw new Error('A line needs points at two different places.');
  if (points.some(({ y }) => y <= 0)) throw new Error('A line needs points above zero.');
  const weights = points.map(({ y }) => 1 / y ** 2);
  const sum = (of: (point: Point) => number) => points.reduce((total, point, i) => total + weights[i]! * of(point), 0);
  const [w, x, y] = [sum(() => 1), sum((p) => p.x), sum((p) => p.y)];
  const [xx, xy] = [sum((p) => p.x * p.x), sum((p) => p.x * p.y)];
  const each = (w * xy - x * y) / (w * xx - x * x);
  const base = (y - each * x) / w;
  const error = Math.max(...points.map((p) => Math.abs(base + each * p.x - p.y) / p.y));
  return { base, each, error };
}

/**
 * How the cost of one more changes: the slope between the last two points divided by the slope between the first two.
 * 1: each costs the same at every size.
 */
export function growthOfCost(points: readonly Point[]): number | undefined {
  const sorted = points.toSorted((a, b) => a.x - b.x);
  if (sorted.length < 3) return undefined;
  const slope = (a: Point, b: Point) => (b.y - a.y) / (b.x - a.x);
  return slope(sorted.at(-2)!, sorted.at(-1)!) / slope(sorted[0]!, sorted[1]!);
}
