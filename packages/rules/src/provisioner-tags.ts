export type ProvisionerTags = Record<string, string>;

/** The tags of a job or daemon without its own tags. */
export const UNTAGGED: Readonly<ProvisionerTags> = { scope: 'organization', owner: '' };

/** Whether both have the same tags. */
export function equalTags(a: ProvisionerTags, b: ProvisionerTags): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}

/**
 * Whether a daemon may run a job of the same organization, by their tags: an untagged job runs only on an untagged
 * daemon. Any other job runs where its tags are a subset of the daemon's.
 */
export function matchesTags(jobTags: ProvisionerTags, daemonTags: ProvisionerTags): boolean {
  if (equalTags(jobTags, UNTAGGED)) return equalTags(daemonTags, UNTAGGED);
  return Object.entries(jobTags).every(([key, value]) => daemonTags[key] === value);
}
