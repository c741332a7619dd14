/** A parameter of a build next to its value in the build before. */
export interface ParameterChange {
  name: string;
  value: string | undefined;
  /** Undefined if the build before did not have it. */
  before: string | undefined;
  change: 'added' | 'removed' | 'changed' | 'same';
}

type NameValue = { name: string; value: string };

/** The parameters of a build, with their values in the build before: changed ones first, then by name. */
export function parameterChanges(
  values: readonly NameValue[],
  before: readonly NameValue[] | undefined,
): ParameterChange[] {
  const old = new Map((before ?? []).map(({ name, value }) => [name, value]));
  const now = new Map(values.map(({ name, value }) => [name, value]));
  const names = [...new Set([...now.keys(), ...old.keys()])];
  return names
    .map((name): ParameterChange => {
      const [value, previous] = [now.get(name), old.get(name)];
      const change =
        before === undefined || value === previous
          ? 'same'
          : previous === undefined
            ? 'added'
            : value === undefined
              ? 'removed'
              : 'changed';
      return { name, value, before: previous, change };
    })
    .sort((a, b) => Number(a.change === 'same') - Number(b.change === 'same') || a.name.localeCompare(b.name));
}
