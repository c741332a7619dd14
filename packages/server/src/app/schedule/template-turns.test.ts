import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '@ropewalk/kit';
import { nextTurn, type OfTemplate, TemplateTurns, type TurnLimits } from './template-turns.ts';

/** `aab`: two items of template a, then one of template b. */
const items = (templates: string): OfTemplate[] => [...templates].map((id) => ({ template_id: id }));

test('the next turn is that of the template with the fewest running items, the first in order', () => {
  const four = { most: 4 };
  const one = { most: 4, mostOfTemplate: 1 };
  const table: [what: string, waiting: string, running: string, limits: TurnLimits, next: number | undefined][] = [
    ['nothing waits', '', '', four, undefined],
    ['nothing runs', 'ab', '', four, 0],
    ['a template without a turn comes first', 'aab', 'a', four, 2],
    ['of several such templates the first in order', 'aacb', 'a', four, 2],
    ['a single template gets all turns', 'aaa', 'aaa', four, 0],
    ['but no more than there are', 'aaa', 'aaaa', four, undefined],
    ['not even another template', 'b', 'aaaa', four, undefined],
    ['each has a turn: the first in order', 'ab', 'ab', four, 0],
    ['the one with fewer', 'aab', 'aab', four, 2],
    ['templates that only run do not count', 'ab', 'ac', four, 1],
    ['a template at its limit waits', 'aab', 'a', one, 2],
    ['and if it is alone, nothing begins', 'aa', 'a', one, undefined],
  ];
  for (const [what, waiting, running, limits, next] of table) {
    assert.equal(nextTurn(items(waiting), items(running), limits), next, what);
  }
});

test('gives other templates their turns while one is slow, and then the rest to it', async () => {
  const slow = Promise.withResolvers<void>();
  const began: string[] = [];
  let most = 0;
  const turns: TemplateTurns<OfTemplate> = new TemplateTurns({ most: 3, mostOfTemplate: 2 }, async (item) => {
    began.push(item.template_id);
    most = Math.max(most, turns.running + 1);
    if (item.template_id === 'slow') await slow.promise;
  });
  const of = (id: string, count: number) => Array.from({ length: count }, () => ({ template_id: id }));
  turns.add([...of('slow', 5), ...of('quick', 6)]);
  turns.begin();
  while (began.length < 8) {
    await turns.oneEnded(systemClock, 60_000);
    turns.begin();
  }
  assert.deepEqual(began.toSorted(), [...Array(6).fill('quick'), 'slow', 'slow']);
  await turns.oneEnded(systemClock, 0);
  assert.deepEqual([turns.waiting, turns.running, turns.templates], [3, 2, ['slow']]);
  slow.resolve();
  while (turns.running > 0) {
    await turns.oneEnded(systemClock, 60_000);
    turns.begin();
  }
  await turns.allEnded();
  assert.deepEqual([began.length, turns.waiting, turns.templates, most], [11, 0, [], 3]);
});
