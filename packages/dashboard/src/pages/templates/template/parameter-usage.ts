import type { TemplateParameterUsage } from '@ropewalk/contract';

/** The maximum number of values that a chart shows by name. */
const MAX_VALUES = 8;

export interface ValueUsage {
  /** The name of the option, or the value itself. Empty: an empty value. Undefined: all rarer values together. */
  name: string | undefined;
  /** The number of workspaces. */
  count: number;
  /** Their share of all workspaces, in percent. */
  percent: number;
}

/** How many workspaces have each value of a parameter, the most frequent first. Each value of a list counts for itself. */
export function valueUsage({ type, values, options = [] }: TemplateParameterUsage): ValueUsage[] {
  const names = new Map(options.map((option) => [option.value, option.name]));
  const all = values.reduce((sum, { count }) => sum + count, 0);
  const counts = new Map<string, number>();
  for (const { value, count } of values) {
    for (const one of type === 'list(string)' ? items(value) : [value]) counts.set(one, (counts.get(one) ?? 0) + count);
  }
  const row = (name: string | undefined, count: number): ValueUsage => ({
    name,
    count,
    percent: Math.round((count / Math.max(1, all)) * 100),
  });
  const sorted = [...counts].sort(([a, first], [b, second]) => second - first || a.localeCompare(b));
  // a single rarer value needs no more room than a summary
  const shown = sorted.length === MAX_VALUES + 1 ? sorted.length : MAX_VALUES;
  const rest = sorted.slice(shown).reduce((sum, [, count]) => sum + count, 0);
  return [
    ...sorted.slice(0, shown).map(([value, count]) => row(names.get(value) ?? value, count)),
    ...(rest > 0 ? [row(undefined, rest)] : []),
  ];
}

/** The values of a list. An empty or malformed one counts as one value. */
function items(value: string): string[] {
  try {
    const list: unknown = JSON.parse(value);
    if (Array.isArray(list)) return list.length > 0 ? list.map(String) : [''];
  } catch {
    // an older version of the template may have had another type
  }
  return [value];
}
