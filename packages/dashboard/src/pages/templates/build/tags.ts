/** The tags of rows that have a name. */
export const tagsOf = (rows: readonly (readonly [name: string, value: string])[]): Record<string, string> =>
  Object.fromEntries(rows.map(([name, value]) => [name.trim(), value.trim()]).filter(([name]) => name !== ''));

/** The tags that a person has set, as rows: without those that every job has. */
export const tagRows = (tags: Record<string, string>): [name: string, value: string][] =>
  Object.entries(tags).filter(([name, value]) => name !== 'owner' && !(name === 'scope' && value === 'organization'));
