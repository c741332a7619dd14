import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { addedTags, equalTags as equal, matchesTags as matches, type TagDifference, UNTAGGED } from '@ropewalk/rules';
import type { Tags } from '../../db/rows.ts';

export type { Tags };

// the SQL function `provisioner_tags_match` has the same rule
export { matches, UNTAGGED };

/** The type of nearly all jobs. */
export const USUAL_TYPE = 'terraform';

/** Whether a daemon runs jobs of this type and with these tags. Statements of the queue have the same condition. */
export function canTake(
  job: { provisioner: string; tags: Tags },
  daemon: { provisioners: readonly string[]; tags: Tags },
): boolean {
  return daemon.provisioners.includes(job.provisioner) && matches(job.tags, daemon.tags);
}

/** With more tags than this in addition to scope and owner, there are too many sets to look each of them up. */
const MAX_EXTRA_TAGS = 8;

/**
 * Every set of job tags that a daemon with these tags may run. An untagged daemon runs only untagged jobs. Any other
 * daemon runs each subset that includes its scope and owner, which all jobs have. Undefined when there are too many
 * sets: `matches` then decides for each job.
 */
export function runnableTagSets(daemonTags: Tags): Tags[] | undefined {
  if (equal(daemonTags, UNTAGGED)) return [daemonTags];
  const extra = Object.entries(daemonTags).filter(([key]) => key !== 'scope' && key !== 'owner');
  if (extra.length > MAX_EXTRA_TAGS) return undefined;
  const { scope = '', owner = '' } = daemonTags;
  const sets = Array.from({ length: 2 ** extra.length }, (_, bits) => ({
    ...Object.fromEntries(extra.filter((_tag, at) => bits & (1 << at))),
    scope,
    owner,
  }));
  return sets.filter((set) => !equal(set, UNTAGGED));
}

/** The changes that a daemon needs to run a job with these tags. Undefined when it may run the job. */
export function tagDifference(jobTags: Tags, daemonTags: Tags): TagDifference | undefined {
  if (matches(jobTags, daemonTags)) return undefined;
  const difference: TagDifference = { missing: {}, different: {}, taken_for_tagged_jobs: false };
  for (const [key, wanted] of Object.entries(jobTags)) {
    const has = ownValue(daemonTags, key);
    if (has === undefined) difference.missing[key] = wanted;
    else if (has !== wanted) difference.different[key] = { wanted, has };
  }
  const subset = Object.keys(difference.missing).length + Object.keys(difference.different).length === 0;
  return subset ? { ...difference, taken_for_tagged_jobs: true } : difference;
}

/** The number of changes that the daemon needs to run the job. */
export function differenceSize({ missing, different, taken_for_tagged_jobs }: TagDifference): number {
  return Object.keys(missing).length + Object.keys(different).length + (taken_for_tagged_jobs ? 1 : 0);
}

/** Tags for people, without those that every job has. Empty for an untagged job. */
export function tagsText(tags: Tags): string {
  return addedTags(tags)
    .map(([key, value]) => `${key}=${value}`)
    .join(', ');
}

/**
 * The largest size of all tags together as JSON, in bytes: a job's tags are part of a notification, which PostgreSQL
 * limits to 8,000 bytes.
 */
const MAX_BYTES = 7_000;
export const TOO_LONG = `all tags together exceed ${MAX_BYTES} bytes`;
export const areTooLong = (tags: Tags) => Buffer.byteLength(JSON.stringify(tags)) > MAX_BYTES;

const invalidTags = (detail: string) =>
  new AppError('invalid', 'Invalid provisioner tags.', { validations: [{ field: 'tags', detail }] });

/**
 * The tags to store for a job or daemon. Sets are merged left to right, and an empty value never overwrites. Scope and
 * owner are made consistent. `userId` is the owner of user-scoped tags.
 */
export function mutateTags(userId: string, ...sets: Tags[]): Tags {
  const tags: Tags = {};
  for (const set of sets) {
    for (const [key, value] of Object.entries(set)) {
      if (key.includes('\0') || value.includes('\0')) throw invalidTags('keys and values must not contain NUL');
      if (value !== '' || !Object.hasOwn(tags, key)) tags[key] = value;
    }
  }
  if (tags['scope'] === 'user') tags['owner'] = userId;
  else {
    tags['scope'] = 'organization';
    tags['owner'] = '';
  }
  if (areTooLong(tags)) throw invalidTags(TOO_LONG);
  return tags;
}
