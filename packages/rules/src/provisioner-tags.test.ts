import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differenceText, differenceTexts } from './provisioner-tags.ts';

test('says how the tags of a daemon differ from those that a job needs', () => {
  const difference = {
    missing: { zone: 'a' },
    different: { size: { wanted: 'large', has: 'small' }, owner: { wanted: '', has: 'ann' } },
    taken_for_tagged_jobs: false,
  };
  assert.deepEqual(differenceTexts(difference), [
    'it lacks zone=a',
    'it has size=small, not size=large',
    'it has owner=ann, not owner=',
  ]);
  assert.equal(
    differenceText(difference),
    'it lacks zone=a; it has size=small, not size=large; it has owner=ann, not owner=',
  );
  assert.equal(
    differenceText({ missing: {}, different: {}, taken_for_tagged_jobs: true }),
    'it has tags, so it takes only jobs with tags',
  );
});
