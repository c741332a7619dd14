// own process: measures its processor time

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainText } from './plain-text.ts';

// Markdown, and the output of upstream's renderer with upstream's plain style. Deliberate differences are left out:
// tables stay as written, definition lists and footnotes are text, and a paragraph in a list item begins a line.
const CASES: [markdown: string, plain: string][] = [
  ['**How** [big](https://x)', 'How big (https://x)'],
  ['a <b>bold</b> word', 'a bold word'],
  ['<div>\nblock\n</div>\nafter', 'block\n\nafter'],
  ['x <br> y', 'x  y'],
  ['![img](https://i) text', 'img (https://i) text'],
  ['[a](https://x "title")', 'a (https://x)'],
  ['[a][r]\n\n[r]: https://ref', 'a (https://ref)'],
  ['[a](rel/path)', 'a (/rel/path)'],
  ['[a](#frag)', 'a'],
  ['[ab](mailto:a@b.c)', 'ab (mailto:a@b.c)'],
  ['<https://auto.link>', '(https://auto.link)'],
  ['https://bare.link here', '(https://bare.link) here'],
  ['www.bare.link', '(http://www.bare.link)'],
  ['a@b.example mail', 'a@b.example (mailto:a@b.example) mail'],
  ['* one\n* two\n  * three\n  * four\n* five', 'one\ntwo\n    three\n    four\nfive'],
  ['- one\n- two', 'one\ntwo'],
  ['1. one\n2. two\n   1. in\n3. three', '1. one\n2. two\n    1. in\n3. three'],
  ['3) three\n4) four', '3. three\n4. four'],
  ['> quote\n> more\n\nafter', 'quote\nmore\n\nafter'],
  ['> one\n>> two', 'one\n\ntwo'],
  ['para one\nline two\n\npara two', 'para one\nline two\n\npara two'],
  ['hard  \nbreak', 'hard\nbreak'],
  ['hard\\\nbreak', 'hard\nbreak'],
  ['# H1\ntext\n## H2\nmore', 'H1\ntext\n\nH2\nmore'],
  ['H1\n===\ntext\nH2\n---\ntext', 'H1\ntext\nH2\ntext'],
  ['a\n\n---\n\nb', 'a\n\nb'],
  ['`code` and ``a ` b``', 'code and a ` b'],
  ['```\nblock code\n  indented\n```\nafter', 'block code\n  indented\n\nafter'],
  ['```go\nfunc x() {}\n```', 'func x() {}'],
  ['    indented code\n\nafter', 'indented code\n\nafter'],
  ['~~gone~~ ~one~', 'gone one'],
  ['***both*** _it_ __st__ snake_case_word 2*3*4', 'both it st snake_case_word 234'],
  ['\\*not\\* em', '*not* em'],
  ['&amp; &lt;x&gt; &copy; &#35;', '& <x> © #'],
  ['- [ ] todo\n- [x] done', 'todo\ndone'],
  [':smile: :+1:', ':smile: :+1:'],
  ['a  double   space', 'a  double   space'],
  ['[un closed', '[un closed'],
  ['[[[', '[[['],
  ['[a](b', '[a](b'],
  ['![](https://x)', '(https://x)'],
  ['[](https://x)', '(https://x)'],
  ['[**bold** link](https://x)', 'bold link (https://x)'],
  ['[![img](https://i)](https://l)', 'img (https://i) (https://l)'],
  ['text <!-- comment --> more', 'text  more'],
  ['<!-- comment -->', ''],
  ['<script>alert(1)</script> x', 'x'],
  ['line\n<p>para</p>', 'line\npara'],
  ['a\tb', 'a\tb'],
  ['  leading', 'leading'],
  ['- a\n\n- b', 'a\nb'],
  ['text\n- list after', 'text\n\nlist after'],
  ['text\n1. list after', 'text\n\n1. list after'],
  ['text\n```\ncode\n```\nafter', 'text\n\ncode\n\nafter'],
  ['# H1 #', 'H1'],
  ['#nospace', '#nospace'],
  ['####### seven', '####### seven'],
  ['*a **b** c*', 'a b c'],
  ['**a*', '*a'],
  ['a ** b', 'a ** b'],
  ['** a**', '** a**'],
  ['**a\nb**', 'a\nb'],
  ['[a\nb](https://x)', 'a\nb (https://x)'],
  ['[link](<https://x y>)', 'link'],
  ['[a](https://x(y)z)', 'a (https://x(y)z)'],
  ['Use `[x](y)` raw', 'Use [x](y) raw'],
  ['a\n# h\nb', 'a\n\nh\nb'],
  ['> # h\n> t', 'h\nt'],
  ['- # h', 'h'],
  ['1986\\. A', '1986. A'],
  ['é 😀 emoji', 'é 😀 emoji'],
  ['', ''],
  ['   ', ''],
  ['\n\n\nx\n\n\n\ny', 'x\n\ny'],
  ['quote: "x" -- y ... \'z\'', 'quote: "x" -- y ... \'z\''],
  ['https://x.example/a_b_c', '(https://x.example/a_b_c)'],
  ['(https://x.example)', '((https://x.example))'],
  ['[https://x](https://x)', 'https://x (https://x)'],
  ['<a href="https://x">text</a>', 'text'],
  ['- a\n  continued\n- b', 'a\ncontinued\nb'],
  ['> a\nlazy', 'a\nlazy'],
  ['a\n    not code', 'a\nnot code'],
  ['1. a\n1. b\n1. c', '1. a\n2. b\n3. c'],
  ['* a\n- b\n+ c', 'a\n\nb\n\nc'],
  [
    '## Region\n\nWhere the *machine* runs. See [docs](https://docs.example/x) or <https://y.example>.\n\n- **eu**: Europe\n- **us**: America',
    'Region\nWhere the machine runs. See docs (https://docs.example/x) or (https://y.example).\n\neu: Europe\nus: America',
  ],
  ['![a **b**](https://i)', 'a b (https://i)'],
  ['line1  \n\nline2', 'line1\n\nline2'],
  ['- \n- b', 'b'],
  ['---', ''],
  ['***', ''],
  ['a\n***\nb', 'a\n\nb'],
  ['text\n> q\ntext', 'text\n\nq\ntext'],
  ['a <script>b *c*</script> d <script> e', 'a  d  e'],
  ['<a@b.example>', 'a@b.example (mailto:a@b.example)'],
  ['[a](x~y) c~d', 'a (/x~y) c~d'],
  ['[docs] here\n\n> [docs]: https://d', 'docs (https://d) here'],
];

for (const [markdown, plain] of CASES) {
  test(`plain text of ${JSON.stringify(markdown).slice(0, 70)}`, () => assert.equal(plainText(markdown), plain));
}

test('renders lists, tables and paragraphs in items', () => {
  assert.equal(plainText('1. a\n\n   para in item\n\n2. b'), '1. a\npara in item\n2. b');
  assert.equal(plainText('| a | b |\n|---|---|\n| 1 | 2 |'), '| a | b |\n|---|---|\n| 1 | 2 |');
});

test('takes time in proportion to the length, whatever the text', () => {
  const units = [
    ...['[', '![', '*', '**a', '_a', '~', '~~a', '`', '``a`', '<', '<!--', '<a', '<a:', '&', '](', '[a](', '[a](b "'],
    ...['[a]: b\n', '[a][', 'a@', 'a@b.', 'http://', 'http://a)', '>', '> ', '- ', '- a\n', '#', '# ', '\\', '\n', ' '],
    ...['- - ', '*_', 'a**b*', '<script>', '<div>\n', '```\n', '[a](<b', '[a](b(', '* *a', '[x](y)', '![![', '> - '],
    ...['[![a](b)](c)', 'a\n=\n', '  - a\n', '_*_*', '](a)', '[^', 'www.a.b ', 'a@b.c ', '<script> ', 'a~b'],
    `${'!['.repeat(95)}a${'](b)'.repeat(95)}`,
  ];
  for (const unit of units) {
    for (const [before, after] of [['', ''] as const, ['[', ']'] as const, ['> ', ''] as const]) {
      const text = before + unit.repeat(Math.ceil(90_000 / unit.length)) + after;
      const started = process.cpuUsage();
      plainText(text);
      // takes 5 to 80 ms here. A quadratic step takes over a second
      const { user } = process.cpuUsage(started);
      assert.ok(user < 600_000, `${JSON.stringify(unit)}: ${user / 1_000} ms of a processor`);
    }
  }
});
