const words = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
const number = (text: string): number | undefined => (/^\+?\d{1,9}$/.test(text) ? Number(text) : undefined);

/** Returns the numbers of one field. Undefined if it contains more than numbers and ranges. */
function spread(text: string, most: number): Set<number> | undefined {
  const out = new Set<number>();
  for (const part of text === '*' ? [`0-${most}`] : text.split(',')) {
    const ends = part.split('-').map(number);
    const [from, to] = ends.length > 1 ? ends : [ends[0], ends[0]];
    if (from === undefined || to === undefined) return undefined;
    if (from > to || to > most) return undefined;
    for (let n = from; n <= to; n++) out.add(n);
  }
  return out;
}

/**
 * Returns which two schedules may match at the same time, or which cannot be compared. A single schedule always passes.
 */
export function overlapError(schedules: readonly string[]): string | undefined {
  for (const [i, one] of schedules.entries())
    for (const other of schedules.slice(i + 1)) {
      const meets = overlap(words(one), words(other));
      if (typeof meets === 'string')
        return `cannot compare "${one}" and "${other}": with several schedules use only numbers, ranges, lists and *, not ${meets}`;
      if (meets) return `"${one}" and "${other}" overlap`;
    }
  return undefined;
}

/** Whether two schedules overlap in month, day and hour. Returns a field instead if that field cannot be compared. */
function overlap(one: string[], other: string[]): boolean | string {
  const meet = (field: number, most: number): boolean | string => {
    const [a, b] = [one[field]!, other[field]!];
    const [left, right] = [spread(a, most), spread(b, most)];
    if (!left || !right) return `"${left ? b : a}"`;
    return [...left].some((n) => right.has(n));
  };
  const [month, dayOfMonth, dayOfWeek, hour] = [
    () => meet(3, 12),
    () => meet(2, 31),
    () => meet(4, 6),
    () => meet(1, 23),
  ];
  const any = (field: number) => one[field] === '*' || other[field] === '*';
  // A schedule runs when either kind of day matches. A * does not restrict it.
  const day = () => {
    if (any(2)) return dayOfWeek();
    const byMonth = dayOfMonth();
    if (any(4) || typeof byMonth === 'string') return byMonth;
    const byWeek = dayOfWeek();
    return typeof byWeek === 'string' ? byWeek : byMonth || byWeek;
  };
  for (const meets of [month, day, hour]) {
    const answer = meets();
    if (answer !== true) return answer;
  }
  return true;
}
