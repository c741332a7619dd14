import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type UpstreamFlag, upstreamCommands } from '@ropewalk/contract/upstream/facts';
import type { Node } from '../framework/context.ts';
import { globalFlags } from '../framework/globals.ts';
import type { FlagDef } from '../framework/types.ts';
import { root } from './index.ts';

function find(words: string): Node | undefined {
  let node: Node | undefined = root;
  for (const word of words === '' ? [] : words.split(' ')) node = node?.children?.[word];
  return node;
}

/** What differs about a flag that both have. */
function flagDifference(want: UpstreamFlag, have: FlagDef): string[] {
  const found: string[] = [];
  if (want.short && want.short !== have.short) found.push(`-${want.short}: missing`);
  if (want.env && want.env !== have.env) found.push(`${have.env ?? 'no variable'}, not ${want.env}`);
  if ((want.type === 'bool') !== ((have.type ?? 'bool') === 'bool'))
    found.push(`${have.type ?? 'bool'}, not ${want.type}`);
  return found;
}

test("upstream-differences.txt lists what is missing of upstream's commands", async () => {
  const lines: string[] = [];
  for (const { command, aliases = [], flags } of upstreamCommands()) {
    // the server's flags are its options, which have their own list
    if (command === 'server') continue;
    const node = find(command);
    const name = `coder ${command}`.trim();
    if (!node) {
      lines.push(`${name}: missing`);
      continue;
    }
    for (const alias of aliases) if (!node.aliases?.includes(alias)) lines.push(`${name}: alias ${alias}: missing`);
    const definition = command === '' ? undefined : (await node.load?.())?.default.definition;
    const ours = { ...globalFlags, ...definition?.flags, ...(await definition?.loadFlags?.()) };
    for (const flag of flags) {
      const mine = ours[flag.name as keyof typeof ours] as FlagDef | undefined;
      const found = mine ? flagDifference(flag, mine) : ['missing'];
      lines.push(...found.map((text) => `${name} --${flag.name}: ${text}`));
    }
  }
  const text = `${lines.join('\n')}\n`;
  const file = join(import.meta.dirname, '../../testdata/upstream-differences.txt');
  if (process.env['UPDATE_GOLDEN']) writeFileSync(file, text);
  assert.equal(text, readFileSync(file, 'utf8'), 'renew it with: npm run generate');
});
