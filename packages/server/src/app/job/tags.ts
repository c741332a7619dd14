import { AppError } from '@platform/kit';

export type Tags = Record<string, string>;

export const UNTAGGED: Readonly<Tags> = { scope: 'organization', owner: '' };

function equal(a: Tags, b: Tags): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}

/**
 * Whether a daemon with these tags may run a job with those, in the same organization. The SQL function
 * `provisioner_tags_match` is the same rule: an untagged job runs only on an exactly untagged daemon; any other where
 * its tags are a subset of the daemon's.
 */
export function matches(jobTags: Tags, daemonTags: Tags): boolean {
  if (equal(jobTags, UNTAGGED)) return equal(daemonTags, UNTAGGED);
  return Object.entries(jobTags).every(([key, value]) => daemonTags[key] === value);
}

/**
 * The tags that are kept for a job or daemon: sets are merged left to right, an empty value never overwrites, and
 * scope and owner are made consistent. `userId` is the owner of user-scoped ones.
 */
export function mutateTags(userId: string, ...sets: Tags[]): Tags {
  const tags: Tags = {};
  for (const set of sets) {
    for (const [key, value] of Object.entries(set)) {
      if (key.includes('\0') || value.includes('\0')) {
        const detail = 'keys and values must not hold NUL';
        throw new AppError('invalid', 'Invalid provisioner tags.', { validations: [{ field: 'tags', detail }] });
      }
      if (value !== '' || !(key in tags)) tags[key] = value;
    }
  }
  if (tags['scope'] === 'user') tags['owner'] = userId;
  else {
    tags['scope'] = 'organization';
    tags['owner'] = '';
  }
  return tags;
}
