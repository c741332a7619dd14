import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mapOf } from '../testing/relay-server.ts';
import { HomeChoice } from './home.ts';

const map = mapOf({ 1: 'http://a.example', 2: 'http://b.example', 3: 'http://c.example' });
const works = () => true;

test('a home is the closest region, and changes only for one that is much closer', () => {
  const clock = { now: 0 };
  const choice = new HomeChoice(() => clock.now);
  assert.equal(choice.choose(map, undefined, works), 1, 'without measurements');
  choice.note(1, 60);
  choice.note(2, 50);
  choice.note(3, 200);
  assert.equal(choice.choose(map, undefined, works), 2);
  assert.equal(choice.choose(map, 1, works), 1, 'not much closer');
  assert.equal(choice.choose(map, 3, works), 2);
  choice.note(1, 12);
  choice.note(2, 3);
  assert.equal(choice.choose(map, 1, works), 1, 'closer by less than 10 ms');
  clock.now = 5 * 60_000 + 1;
  choice.note(1, 60);
  assert.equal(choice.choose(map, 2, works), 2, 'unknown, but it works');
  choice.note(2, 30);
  assert.equal(choice.choose(map, 1, works), 2, 'old measurements do not count');
});

test('a home that does not work, or is not in the map, is replaced', () => {
  const choice = new HomeChoice(() => 0);
  assert.equal(
    choice.choose(map, 2, () => false),
    2,
    'nothing better is known',
  );
  choice.note(3, 500);
  assert.equal(
    choice.choose(map, 2, () => false),
    3,
  );
  assert.equal(choice.choose(mapOf({ 1: 'http://a.example' }), 3, works), 1);
  const avoided = new Map([...map].map(([id, region]) => [id, { ...region, isAvoided: id < 3 }]));
  assert.equal(choice.choose(avoided, 1, works), 3);
  assert.equal(choice.choose(new Map(), 1, works), undefined);
});
