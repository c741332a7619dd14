import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type UpstreamFlag, upstreamCommands, upstreamNewerCommands } from '@ropewalk/contract/upstream/facts';
import type { Node } from '../framework/context.ts';
import { flagsBetweenNames, globalFlags } from '../framework/globals.ts';
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

/** Why commands and flags of upstream are missing here, by the lines that report them. The first match counts. */
const REASONS: readonly (readonly [lines: RegExp, why: string])[] = [
  [/^coder (features|licenses)\b/, 'nothing here needs a license'],
  [/^coder (agent-firewall|boundary)\b/, 'the agent firewall, which comes later'],
  [/^coder agent --agent-firewall-/, 'the agent firewall, which comes later'],
  [/^coder (ai-gateway|aibridge|exp ai-model-prices)\b/, 'the AI gateway, which comes later'],
  [/^coder exp chat\b/, 'Coder Agents, which this server does not have'],
  [/ --agents-allowed: missing$/, 'Coder Agents, which this server does not have'],
  [
    /^coder support bundle --pprof/,
    'the API serves no profiles: the address of --pprof-address does, to the operator of the server',
  ],
  [/^coder exp scaletest\b/, "load tests of upstream's server: bench/ has those of this one"],
  [/^coder task\b/, 'tasks, which the dashboard and the API have'],
  [/^coder (connect|vpn-daemon)\b/, "upstream's desktop app, which starts these commands itself"],
  [
    /^coder server dbcrypt delete --postgres-url/,
    'the variable of the other commands, which upstream leaves out only here',
  ],
];

/** A missing piece with its reason. @throws if there is none */
function withReason(line: string): string {
  const reason = REASONS.find(([lines]) => lines.test(line));
  assert.ok(reason, `build it, or give a reason in REASONS: ${line}`);
  return `${line} (${reason[1]})`;
}

async function flagsOf(command: string, node: Node): Promise<Readonly<Record<string, FlagDef>>> {
  const definition = command === '' ? undefined : (await node.load?.())?.default.definition;
  const own = { ...definition?.flags, ...(await definition?.loadFlags?.()) };
  return node.children && command !== '' ? { ...flagsBetweenNames, ...own } : { ...globalFlags, ...own };
}

test("upstream-differences.txt lists what is missing of upstream's commands, each with a reason", async () => {
  const lines: string[] = [];
  for (const { command, aliases = [], flags } of [...upstreamCommands(), ...upstreamNewerCommands()]) {
    // the server's flags are its options, which have their own list
    if (command === 'server') continue;
    const node = find(command);
    const name = `coder ${command}`.trim();
    if (!node) {
      lines.push(`${name}: missing`);
      continue;
    }
    for (const alias of aliases) if (!node.aliases?.includes(alias)) lines.push(`${name}: alias ${alias}: missing`);
    const ours = await flagsOf(command, node);
    for (const flag of flags) {
      const mine = ours[flag.name];
      const found = mine ? flagDifference(flag, mine) : ['missing'];
      lines.push(...found.map((text) => `${name} --${flag.name}: ${text}`));
    }
  }
  const text = [...new Set(lines)].map((line) => `${withReason(line)}\n`).join('');
  const file = join(import.meta.dirname, '../../testdata/upstream-differences.txt');
  if (process.env['UPDATE_GOLDEN']) writeFileSync(file, text);
  assert.equal(text, readFileSync(file, 'utf8'), 'renew it with: npm run generate');
});
