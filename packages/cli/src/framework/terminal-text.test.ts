import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { layOutTable } from '../lib/table.ts';
import { styleOf } from './style.ts';
import { logText, oneLine, terminalText } from './terminal-text.ts';

const HOSTILE = 'a\u001b]52;c;eA==\u0007\u001b[2J\u001b[31mred\u009b2J\u202e\u200b\rb';
const SHOWN = 'a\\u001b]52;c;eA==\\u0007\\u001b[2J\\u001b[31mred\\u009b2J\\u202e\\u200b\\u000db';

test('shows sequences of foreign texts and keeps own styles', () => {
  const style = styleOf({ isTTY: true }, { TERM: 'xterm' });
  assert.equal(terminalText(HOSTILE), SHOWN);
  assert.equal(terminalText(`${style('red', HOSTILE)}\r\n\tx`), `\u001b[31m${SHOWN}\u001b[39m\n\tx`);
  assert.equal(terminalText(style(['red', 'bold'], 'x')), '\u001b[31m\u001b[1mx\u001b[22m\u001b[39m');
});

test('keeps the colors of a log line, up to its end', () => {
  assert.equal(terminalText(logText('plain')), 'plain');
  assert.equal(terminalText(logText(HOSTILE)), `${SHOWN.replace('\\u001b[31m', '\u001b[31m')}\u001b[0m`);
  assert.equal(terminalText(logText('\u001b[2J')), '\\u001b[2J');
});

test('a cell of a table is one line with the width that it shows', () => {
  assert.equal(oneLine('a\n b\tc\u009b'), 'a b c\\u009b');
  const layout = { width: undefined, style: styleOf({}, {}), chosen: true };
  const { text } = layOutTable([{ title: 'NAME' }, { title: 'X' }], [['\u202e', 'y']], layout);
  assert.equal(text, 'NAME    X\n\\u202e  y');
});

test('a log line cannot hide its text, and keeps gray', () => {
  for (const codes of ['8', '08', '0;8', '1;8;31', '38;5;1;8', '38;2;1;2;3;8', '38:8', '48;8', '38;5;8;8'])
    assert.equal(terminalText(logText(`\u001b[${codes}msecret`)), `\\u001b[${codes}msecret`, codes);
  for (const codes of ['38;5;8', '48;5;8', '38;2;8;8;8', '1;38;5;8;4', '28', '80'])
    assert.equal(terminalText(logText(`\u001b[${codes}mtext`)), `\u001b[${codes}mtext\u001b[0m`, codes);
});

/** What writes to an output of a command without `write` of io.ts: bytes that another program or a file gets. */
const EXACT: Record<string, string> = {
  'framework/io.ts': 'write itself, and printExact',
  'lib/progress.ts': 'moves the cursor, and writes lines with terminalText',
  'commands/completion.ts': 'a script for the shell, from this program',
  'commands/config-ssh/index.ts': 'a patch for the SSH configuration',
  'commands/state/pull.ts': 'a state file',
  'commands/templates/pull.ts': 'an archive',
  'commands/dotfiles/program.ts': 'the output of Git and of the scripts of the repository',
  'start.ts': 'the end of the output',
};

test('commands write to their outputs with the functions that make foreign texts visible', () => {
  const writes = globSync('packages/cli/src/**/*.ts').filter(
    (file) =>
      !/\.test\.ts$|\/testing\//.test(file) &&
      /\b(?:stdout|stderr|output)\.write\(|console\.(?:log|error|warn|info)\(/.test(readFileSync(file, 'utf8')),
  );
  assert.deepEqual(writes.map((file) => file.replace('packages/cli/src/', '')).sort(), Object.keys(EXACT).sort());
});
