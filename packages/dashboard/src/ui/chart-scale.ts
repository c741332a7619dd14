/** Steps between the lines of a chart, within one power of ten. */
const STEPS = [1, 2, 2.5, 5, 10];
const MAX_INTERVALS = 5;

/** Evenly spaced whole numbers from 0 to at least `max`, with few digits. There are at most six. */
export function ticksUpTo(max: number): number[] {
  const least = Math.max(max, 4) / MAX_INTERVALS;
  const power = 10 ** Math.floor(Math.log10(least));
  const wanted = STEPS.map((step) => step * power).find((step) => step >= least && Number.isInteger(step)) ?? 1;
  return Array.from({ length: Math.max(1, Math.ceil(max / wanted)) + 1 }, (_, at) => at * wanted);
}

/** Which of `count` evenly spaced points to label: every nth from the last one, with at least `gap` between two. */
export function labelled(count: number, width: number, gap: number): number[] {
  if (count === 0) return [];
  const every = Math.max(1, Math.ceil((gap * (count - 1)) / Math.max(1, width)));
  return Array.from({ length: Math.ceil(count / every) }, (_, at) => count - 1 - at * every).reverse();
}

/** The runs of points that have a value, each as `[first, last]`. */
export function runsOf(values: readonly (number | undefined)[]): [first: number, last: number][] {
  const runs: [number, number][] = [];
  for (const [at, value] of values.entries()) {
    if (value === undefined) continue;
    const run = runs.at(-1);
    if (run?.[1] === at - 1) run[1] = at;
    else runs.push([at, at]);
  }
  return runs;
}
