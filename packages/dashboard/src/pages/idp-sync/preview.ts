/** What the settings of a sync do with each value of a claim, before they are saved. */

export interface SyncDraft {
  mapping: Record<string, readonly string[]>;
  /** Groups only. */
  filter?: string;
  autoCreate?: boolean;
}

export interface Target {
  /** What a mapping contains: the id of a group or an organization, the name of a role. */
  value: string;
  label: string;
  /** Given without a mapping to people whose claim has this value. */
  claim?: string;
}

export interface MappingRow {
  value: string;
  /** Whether somebody had this value at their last sign-in. */
  seen: boolean;
  /** The targets in the mapping. Deleted ones have no label. */
  gets: { value: string; label: string | undefined }[];
  /** What the value gives without a mapping. */
  otherwise: string;
}

/** Whether the filter excludes a value. Undefined if the browser cannot decide: the server has other expressions. */
function excluded(filter: string | undefined, value: string): boolean | undefined {
  if (!filter) return false;
  try {
    return !new RegExp(filter, 'u').test(value);
  } catch {
    return undefined;
  }
}

function unmapped(value: string, draft: SyncDraft, targets: readonly Target[]): string {
  const out = excluded(draft.filter, value);
  if (out) return 'Nothing: the filter excludes it';
  const same = targets.find(({ claim }) => claim?.toLowerCase() === value.toLowerCase());
  const result = same ? same.label : draft.autoCreate ? `${value}, a new group` : 'Nothing';
  return out === undefined && result !== 'Nothing' ? `${result}, if the filter includes it` : result;
}

/** The mapped values and those that people had, in one list. */
export function mappingRows(draft: SyncDraft, seen: readonly string[], targets: readonly Target[]): MappingRow[] {
  const labels = new Map(targets.map(({ value, label }) => [value, label]));
  const values = [...new Set([...Object.keys(draft.mapping), ...seen])].sort((a, b) => a.localeCompare(b));
  return values.map((value) => ({
    value,
    seen: seen.includes(value),
    gets: (draft.mapping[value] ?? []).map((each) => ({ value: each, label: labels.get(each) })),
    otherwise: unmapped(value, draft, targets),
  }));
}

export function withPair(mapping: SyncDraft['mapping'], given: string, gets: string): Record<string, string[]> {
  const all = Object.fromEntries(Object.entries(mapping).map(([key, list]) => [key, [...list]]));
  all[given] = [...new Set([...(all[given] ?? []), gets])];
  return all;
}

export function withoutPair(mapping: SyncDraft['mapping'], given: string, gets: string): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(mapping).flatMap(([key, list]) => {
      const left = key === given ? list.filter((each) => each !== gets) : [...list];
      return left.length > 0 ? [[key, left]] : [];
    }),
  );
}
