import assert from 'node:assert/strict';
import { test } from 'node:test';
import { markdownToHtml, markdownToText } from './markdown.ts';
import { render } from './render.ts';
import { TEMPLATES, type Template } from './templates.ts';

const user = { id: 'u', username: 'ada', name: 'Ada', email: 'ada+x@example.com' };
const baseUrl = 'https://coder.example.com';

test('fills the placeholders of every template', () => {
  const all = Object.values(TEMPLATES) as Template[];
  assert.equal(all.length, 26);
  assert.equal(new Set(all.map(({ id }) => id)).size, 26);
  for (const template of all) {
    const labels = Object.fromEntries(
      [...JSON.stringify(template).matchAll(/\.Labels\.(\w+)/g)].map(([, name]) => [name!, `the ${name}`]),
    );
    const { title, body, actions } = render(template, { labels, user, baseUrl });
    assert.doesNotMatch(`${title}${body}${JSON.stringify(actions)}`, /\{\{/, template.name);
    for (const { url } of actions) assert.ok(URL.canParse(url) && url.startsWith(baseUrl), url);
  }
  const { actions } = render(TEMPLATES.oneTimePasscode, { labels: { one_time_passcode: 'a b' }, user, baseUrl });
  assert.equal(actions[0]!.url, `${baseUrl}/reset-password/change?otp=a%20b&email=ada%2Bx%40example.com`);
});

test("keeps the Markdown of a person's own message, without HTML and images", () => {
  const labels = { custom_title: 'Build', custom_message: '**done** <b>x</b> ![i](https://evil.example/i)' };
  const { title, body } = render(TEMPLATES.custom, { labels, user, baseUrl });
  assert.deepEqual([title, body], ['Build', labels.custom_message]);
  assert.equal(
    markdownToHtml(body),
    '<p><strong>done</strong> &lt;b&gt;x&lt;/b&gt; !<a href="https://evil.example/i">i</a></p>',
  );
});

test('shows values as they are in Markdown, HTML and text', () => {
  const evil = '**b** [x](https://evil.example) <script>alert(1)</script> `c`\n- list';
  const { title, body } = render(TEMPLATES.userCreated, {
    labels: { username: evil, initiator: 'o"p' },
    user,
    baseUrl,
  });
  assert.doesNotMatch(title, /\n/);
  const html = markdownToHtml(body);
  assert.doesNotMatch(html, /<script|<a |<li>|<code>/);
  assert.match(html, /&lt;script&gt;/);
  assert.equal(html.match(/<strong>/g)?.length, 2);
  const text = markdownToText(body);
  assert.ok(text.includes('**b** [x](https://evil.example) <script>alert(1)</script> `c` - list'), text);
  assert.equal(text, `o"p created the account ${evil.replace('\n', ' ')}.`);
});

test('converts paragraphs, lists, code and links', () => {
  const markdown = 'One **two** `three`\n\n- a\n- [b](https://b.example/?x=1&y=2)';
  assert.equal(
    markdownToHtml(markdown),
    '<p>One <strong>two</strong> <code>three</code></p>\n' +
      '<ul><li>a</li><li><a href="https://b.example/?x=1&amp;y=2">b</a></li></ul>',
  );
  assert.equal(markdownToText(markdown), 'One two three\n\na\nb (https://b.example/?x=1&y=2)');
});

test('takes HTML, images and links outside the web as text, and values with entities as they are', () => {
  assert.equal(markdownToHtml('<b>a</b>\n\n    b'), '<p>&lt;b&gt;a&lt;/b&gt;</p>\n<p>b</p>');
  assert.equal(
    markdownToHtml('![a](https://a.example) [b](javascript:alert) [c](ftp://c)'),
    '<p>!<a href="https://a.example">a</a> [b](javascript:alert) [c](ftp://c)</p>',
  );
  const { body } = render(TEMPLATES.userCreated, { labels: { username: '&lt;', initiator: '&amp;' }, user, baseUrl });
  assert.match(markdownToText(body), /^&amp; created the account &lt;\.$/);
  assert.ok(['&amp;amp;', '&amp;lt;'].every((shown) => markdownToHtml(body).includes(shown)));
});
