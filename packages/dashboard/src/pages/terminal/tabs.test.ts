import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newTerminalId, startTabs, storeTabs } from './tabs.ts';

function memory() {
  const values = new Map<string, string>();
  return {
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => void values.set(key, value),
  };
}

test('makes UUIDs', () => {
  assert.match(newTerminalId(), /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  assert.notEqual(newTerminalId(), newTerminalId());
});

test('restores the tabs of the same address, and only those', () => {
  const store = memory();
  const tabs = [
    { id: 'a', command: 'ls', app: '' },
    { id: 'b', command: '', app: '' },
  ];
  storeTabs('/@me/dev/terminal', tabs, store);
  assert.deepEqual(startTabs('/@me/dev/terminal', { reconnect: 'b' }, store), tabs);
  assert.deepEqual(startTabs('/@me/dev/terminal', { reconnect: 'z', app: 'htop' }, store), [
    { id: 'z', command: '', app: 'htop' },
  ]);
  assert.equal(startTabs('/@me/dev/terminal', {}, store).length, 1);
  assert.equal(startTabs('/@me/other/terminal', { reconnect: 'a' }, store)[0]!.command, '');
});

test('ignores stored text that is not a list of tabs', () => {
  for (const text of ['{', '{}', '[1, {"id": 3}]']) {
    const store = memory();
    store.setItem('terminals /x', text);
    assert.deepEqual(startTabs('/x', { reconnect: 'a' }, store), [{ id: 'a', command: '', app: '' }]);
  }
});
