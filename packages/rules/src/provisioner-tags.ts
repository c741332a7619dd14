export type ProvisionerTags = Record<string, string>;

/** The tags of a job or daemon without its own tags. */
export const UNTAGGED: Readonly<ProvisionerTags> = { scope: 'organization', owner: '' };

/** Tags without those of an untagged job or daemon, in the same order. */
export function addedTags(tags: Readonly<ProvisionerTags>): [name: string, value: string][] {
  return Object.entries(tags).filter(([name, value]) => value !== UNTAGGED[name]);
}

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

/** How a daemon's tags differ from those that a job needs. */
export interface TagDifference {
  /** Tags of the job that the daemon lacks. */
  missing: ProvisionerTags;
  /** Tags that both have, with different values. */
  different: Record<string, { wanted: string; has: string }>;
  /** The job is untagged and the daemon is tagged: tagged daemons take tagged jobs only. */
  taken_for_tagged_jobs: boolean;
}

/** A difference for people, in parts without a period: `it lacks zone=a`, `it has size=small, not size=large`. */
export function differenceTexts({ missing, different, taken_for_tagged_jobs }: TagDifference): string[] {
  return [
    ...Object.entries(missing).map(([key, value]) => `it lacks ${key}=${value}`),
    // a value can be empty, so the text repeats the key
    ...Object.entries(different).map(([key, { wanted, has }]) => `it has ${key}=${has}, not ${key}=${wanted}`),
    ...(taken_for_tagged_jobs ? ['it has tags, so it takes only jobs with tags'] : []),
  ];
}

/** A difference for people, in a line: `it lacks zone=a; it has size=small, not size=large`. */
export const differenceText = (difference: TagDifference): string => differenceTexts(difference).join('; ');
