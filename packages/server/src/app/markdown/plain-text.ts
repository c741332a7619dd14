// The words of a Markdown text, as upstream shows a description that it cannot render: no marks, links with their
// address in parentheses, lists line by line. Import this module dynamically: only some servers render a text.

import MarkdownIt, { type Token } from 'markdown-it';
import { htmlText } from './html.ts';
import { singleTildes } from './single-tildes.ts';

/** The longest description that is shown, in characters. The rest is left out. */
const MAX_LENGTH = 16_384;
/** The deepest nesting of quotes, lists and brackets. Deeper quotes and lists are left out. */
const MAX_NESTING = 100;
const MAX_WWW_ADDRESS = 2_048;

const descriptions = new MarkdownIt({ html: true, linkify: true, maxNesting: MAX_NESTING });
// addresses are shown as they are written, and as text they cannot do harm
descriptions.validateLink = () => true;
descriptions.normalizeLink = (address) => address;
descriptions.normalizeLinkText = (text) => text;
// a table stays as written, which shows its columns
descriptions.disable('table').use(singleTildes);
descriptions.linkify.add('//', null).add('www.', {
  validate: (text, at, linkify) =>
    Math.max(0, linkify.testSchemaAt(`//${text.slice(at, at + MAX_WWW_ADDRESS)}`, 'http:', 0) - 2),
  normalize: (match) => {
    match.url = `http://${match.raw}`;
  },
});

interface Block {
  text: string;
  kind: 'heading' | 'html' | 'list' | 'other';
}

/** The plain text of a Markdown text. */
export function plainText(markdown: string): string {
  return textOf(descriptions.parse(markdown.slice(0, MAX_LENGTH), {}));
}

/** The plain text of a document that markdown-it parsed. */
export function textOf(tokens: Token[]): string {
  return join(blocksUntil(tokens.values(), undefined)).trim();
}

function join(blocks: Block[]): string {
  let text = '';
  let last: Block | undefined;
  for (const block of blocks) {
    if (block.text === '') continue;
    if (last) text += last.kind === 'heading' || block.kind === 'html' ? '\n' : '\n\n';
    text += block.text;
    last = block;
  }
  return text;
}

/** The blocks before the next token of the type `end`, which is taken too. */
function blocksUntil(tokens: Iterator<Token>, end: string | undefined): Block[] {
  const blocks: Block[] = [];
  let heading = false;
  for (let { value: token } = tokens.next(); token && token.type !== end; { value: token } = tokens.next()) {
    switch (token.type) {
      case 'heading_open':
      case 'paragraph_open':
        heading = token.type === 'heading_open';
        break;
      case 'inline':
        blocks.push({ kind: heading ? 'heading' : 'other', text: inlineText(token.children ?? []) });
        break;
      case 'fence':
        blocks.push({ kind: 'other', text: token.content.replace(/\n$/, '') });
        break;
      case 'code_block':
        blocks.push({ kind: 'other', text: token.content.trimEnd() });
        break;
      case 'html_block':
        blocks.push({ kind: 'html', text: htmlText(token.content).trim() });
        break;
      case 'blockquote_open':
        blocks.push({ kind: 'other', text: join(blocksUntil(tokens, 'blockquote_close')) });
        break;
      case 'bullet_list_open':
        blocks.push({ kind: 'list', text: listText(tokens, undefined) });
        break;
      case 'ordered_list_open':
        blocks.push({ kind: 'list', text: listText(tokens, Number(token.attrGet('start') ?? 1)) });
        break;
    }
  }
  return blocks;
}

/** @param from the number of the first item of an ordered list */
function listText(tokens: Iterator<Token>, from: number | undefined): string {
  const texts: string[] = [];
  let number = from ?? 0;
  while (tokens.next().value?.type === 'list_item_open') {
    const text = itemText(blocksUntil(tokens, 'list_item_close'));
    if (from !== undefined) texts.push(`${number++}. ${text}`);
    else if (text !== '') texts.push(text);
  }
  return texts.join('\n');
}

/** An item's blocks line by line, with nested lists indented. */
function itemText(blocks: Block[]): string {
  return blocks
    .map(({ kind, text }, at) => {
      if (kind === 'list') return text.replaceAll(/^/gm, '    ');
      return at === 0 ? text.replace(/^\[[ xX]\] /, '') : text;
    })
    .filter((text) => text !== '')
    .join('\n');
}

function inlineText(tokens: Token[]): string {
  let text = '';
  let link: { token: Token; from: number } | undefined;
  const hidden = hiddenTokens(tokens);
  for (const [at, token] of tokens.entries()) {
    if (hidden.has(at)) continue;
    switch (token.type) {
      case 'text':
      case 'text_special':
      case 'code_inline':
        text += token.content;
        break;
      case 'softbreak':
      case 'hardbreak':
        text += '\n';
        break;
      case 'image': {
        const label = inlineText(token.children ?? []);
        text += label + addressAfter(label, String(token.attrGet('src') ?? ''));
        break;
      }
      case 'link_open':
        link = { token, from: text.length };
        break;
      case 'link_close': {
        const address = String(link!.token.attrGet('href') ?? '');
        // of an address that is a link, only the address is shown, but a mail address keeps its readable form too
        if (link!.token.info === 'auto' && !address.startsWith('mailto:')) text = text.slice(0, link!.from);
        text += addressAfter(text.slice(link!.from), address);
        break;
      }
    }
  }
  return text;
}

/** An address in parentheses, as it follows a label. Empty for a place on the same page, and a path from the root otherwise. */
function addressAfter(label: string, address: string): string {
  if (address === '' || address.startsWith('#') || /\s/.test(address)) return '';
  const shown = /^(?:[a-zA-Z][a-zA-Z0-9+.-]*:|\/)/.test(address) ? address : `/${address}`;
  return `${label === '' ? '' : ' '}(${shown})`;
}

/** The positions of tokens in `<script>` and `<style>` elements. */
function hiddenTokens(tokens: Token[]): Set<number> {
  const hidden = new Set<number>();
  /** The position of the next closing tag, by the element's name. */
  const closing = new Map<string, number>();
  for (let at = tokens.length - 1; at >= 0; at--) {
    const token = tokens[at]!;
    const tag = token.type === 'html_inline' ? /^<(\/?)(script|style)[\s>]/i.exec(token.content) : undefined;
    if (!tag) continue;
    const name = tag[2]!.toLowerCase();
    const end = closing.get(name);
    if (tag[1]) closing.set(name, at);
    else if (end !== undefined) {
      for (let inside = at; inside < end; inside++) hidden.add(inside);
      closing.delete(name);
    }
  }
  return hidden;
}
