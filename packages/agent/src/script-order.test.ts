import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import {
  type WorkspaceAgentScript,
  WorkspaceAgentScript_WaitForSchema,
  WorkspaceAgentScriptSchema,
} from '@ropewalk/wire/proto/agent';
import { uuidBytes } from '@ropewalk/wire/uuid';
import { type Outcome, runInOrder } from './script-order.ts';

const idOf = (name: string) => uuidBytes(`00000000-0000-4000-8000-${Buffer.from(name.padEnd(6, '_')).toString('hex')}`);

/** `b < a` waits for the success of a, `b ~ a` for its end. */
function scripts(...rules: string[]): WorkspaceAgentScript[] {
  const found = new Map<string, WorkspaceAgentScript>();
  const named = (name: string) => {
    const script = found.get(name) ?? create(WorkspaceAgentScriptSchema, { id: idOf(name), displayName: name });
    found.set(name, script);
    return script;
  };
  for (const rule of rules) {
    const [name, how, other] = rule.split(' ');
    const { waitsFor } = named(name!);
    const wait = { scriptId: named(other ?? name!).id, anyOutcome: how === '~' };
    if (other) waitsFor.push(create(WorkspaceAgentScript_WaitForSchema, wait));
  }
  return [...found.values()];
}

/** Runs them, and returns what happened in order, with the outcomes by name. */
async function happens(rules: string[], outcomes: Record<string, Outcome> = {}) {
  const events: string[] = [];
  const all = scripts(...rules);
  const result = await runInOrder(all, {
    async run({ displayName: name }) {
      events.push(`+${name}`);
      await new Promise((resolve) => setImmediate(resolve));
      events.push(`-${name}`);
      return outcomes[name] ?? 'ok';
    },
    skip: ({ displayName: name }, { displayName: other }) => void events.push(`${name} without ${other}`),
  });
  return { events, outcomes: Object.fromEntries(all.map(({ displayName }, at) => [displayName, result[at]])) };
}

test('runs scripts together, and each after those that it waits for', async () => {
  assert.deepEqual((await happens(['a', 'b'])).events, ['+a', '+b', '-a', '-b']);
  assert.deepEqual((await happens(['c < b', 'b < a'])).events, ['+a', '-a', '+b', '-b', '+c', '-c']);
  const { events } = await happens(['d < b', 'd < c', 'b < a', 'c < a', 'e']);
  const at = (event: string) => events.indexOf(event);
  for (const [first, then] of [
    ['-a', '+b'],
    ['-a', '+c'],
    ['-b', '+d'],
    ['-c', '+d'],
  ] as const)
    assert.ok(at(first) < at(then), `${first} ${then}: ${events}`);
  assert.ok(at('+e') < at('-a'), 'one without rules does not wait');
});

test('skips what needs the success of a failed or skipped script, and runs what needs its end', async () => {
  for (const bad of ['failed', 'timed_out'] as const) {
    const { events, outcomes } = await happens(['b < a', 'c < b', 'd ~ a', 'e ~ b'], { a: bad });
    assert.deepEqual(outcomes, { b: 'skipped', a: bad, c: 'skipped', d: 'ok', e: 'ok' });
    assert.ok(events.includes('b without a') && events.includes('c without b') && !events.includes('+b'));
  }
});

test('ends with circles, and ignores scripts that are not there', async () => {
  const circle = await happens(['a < b', 'b < c', 'c < a', 'd < d']);
  assert.deepEqual(new Set(Object.values(circle.outcomes)), new Set(['ok']));
  const [lonely] = scripts('a < b');
  const outcomes = await runInOrder([lonely!], { run: async () => 'ok', skip: () => assert.fail() });
  assert.deepEqual(outcomes, ['ok']);
});
