// The Markdown of notifications: paragraphs, lists, bold, code and links. Everything else is text.

import { ownValue } from '@ropewalk/kit/own-value';

const SPECIAL = /[\\`*_{}[\]<>()#+\-.!|~]/g;

/** A value inside Markdown, without marks. */
export const escapeMarkdown = (text: string): string =>
  text.replaceAll(/\s*\r?\n\s*/g, ' ').replaceAll(SPECIAL, (mark) => `\\${mark}`);

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
export const escapeHtml = (text: string): string => text.replaceAll(/[&<>"']/g, (mark) => ownValue(ENTITIES, mark)!);

const INLINE =
  /\\([\\`*_{}[\]<>()#+\-.!|~])|\*\*((?:\\.|[^*\\])+)\*\*|`([^`]+)`|\[((?:\\.|[^\]\\])+)\]\((https?:\/\/[^\s()<>"]+)\)/g;

interface Marks {
  text(value: string): string;
  bold(inner: string): string;
  code(value: string): string;
  link(inner: string, url: string): string;
}

function inline(text: string, marks: Marks): string {
  let out = '';
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, escaped, bold, code, label, url] = found;
    out += marks.text(text.slice(at, found.index));
    if (escaped !== undefined) out += marks.text(escaped);
    else if (bold !== undefined) out += marks.bold(inline(bold, marks));
    else if (code !== undefined) out += marks.code(code);
    else out += marks.link(inline(label!, marks), url!);
    at = found.index + all.length;
  }
  return out + marks.text(text.slice(at));
}

const HTML: Marks = {
  text: escapeHtml,
  bold: (inner) => `<strong>${inner}</strong>`,
  code: (value) => `<code>${escapeHtml(value)}</code>`,
  link: (inner, url) => `<a href="${escapeHtml(url)}">${inner}</a>`,
};
const PLAIN: Marks = {
  text: (value) => value,
  bold: (inner) => inner,
  code: (value) => value,
  link: (inner, url) => `${inner} (${url})`,
};

const blocksOf = (markdown: string) => markdown.split(/\n{2,}/).filter((block) => block.trim() !== '');
const itemsOf = (block: string) =>
  /^- /.test(block) ? block.split(/\n(?=- )/).map((item) => item.slice(2)) : undefined;

export function markdownToHtml(markdown: string): string {
  return blocksOf(markdown)
    .map((block) => {
      const items = itemsOf(block);
      if (items) return `<ul>${items.map((item) => `<li>${inline(item, HTML)}</li>`).join('')}</ul>`;
      return `<p>${inline(block, HTML)}</p>`;
    })
    .join('\n');
}

export function markdownToText(markdown: string): string {
  return blocksOf(markdown)
    .map((block) => (itemsOf(block) ?? [block]).map((line) => inline(line, PLAIN)).join('\n'))
    .join('\n\n');
}
