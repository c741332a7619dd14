import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problemsOf } from './problems.ts';

const log = (text: string, level = 'error') => text.split('\n').map((line) => ({ text: line, level }));

test('reads the place and the explanation of an error', () => {
  const lines = log(`Error: Reference to undeclared input variable
  on main.tf line 64, in resource "terraform_data" "x":
  64:   input = var.missing

An input variable with the name "missing" has not been declared.`);
  assert.deepEqual(problemsOf([...log('Initializing the backend...', 'debug'), ...lines]), [
    {
      severity: 'error',
      summary: 'Reference to undeclared input variable',
      detail: 'An input variable with the name "missing" has not been declared.',
      file: 'main.tf',
      line: 64,
      excerpt: [
        { index: 1, text: 'Error: Reference to undeclared input variable', afterGap: false },
        { index: 2, text: '  on main.tf line 64, in resource "terraform_data" "x":', afterGap: false },
        { index: 5, text: 'An input variable with the name "missing" has not been declared.', afterGap: false },
      ],
    },
  ]);
});

test('reads several problems, files in folders, and warnings', () => {
  const lines = [
    ...log('Error: Unsupported argument\n  on modules/box/main tf.tf line 3:\n   3:   foo = 1\nNot expected here.'),
    ...log('Warning: Deprecated\n  on main.tf line 1, in provider "x":\nUse the other one.', 'warn'),
    ...log('Error: Failed to query provider packages\n\nNo such host\nSecond line'),
  ];
  assert.deepEqual(
    problemsOf(lines).map(({ severity, file, line, detail }) => [severity, file, line, detail]),
    [
      ['error', 'modules/box/main tf.tf', 3, 'Not expected here.'],
      ['warning', 'main.tf', 1, 'Use the other one.'],
      ['error', undefined, undefined, 'No such host\nSecond line'],
    ],
  );
});

test('lists a repeated problem once, and ends a problem where other lines follow', () => {
  const error = log('Error: Twice\n  on a.tf line 2:');
  const lines = [...error, ...log('Cleaning up', 'info'), ...log('unrelated'), ...error];
  const problems = problemsOf(lines);
  assert.deepEqual(
    problems.map(({ summary, detail, excerpt }) => [summary, detail, excerpt.map(({ index }) => index)]),
    [['Twice', '', [0, 1]]],
  );
});

test('reads messages in a frame, and all lines of one log entry', () => {
  const text = '╷\n│ Error: Invalid block\n│ \n│   on main.tf line 7:\n│    7: oops {\n│ \n│ Not a block.\n╵';
  const [problem] = problemsOf([{ text, level: 'error' }]);
  assert.deepEqual([problem!.file, problem!.line, problem!.detail], ['main.tf', 7, 'Not a block.']);
});
