// The words of a Markdown text, as upstream shows a description that it cannot render: no marks, links with their
// address in parentheses, lists line by line. Linear in the length of the text.

import { htmlText } from './html.ts';
import { addressAt, inlineText, labelKey, titleEnd } from './inline.ts';

/** The deepest nesting of quotes and lists. Deeper ones are text. */
const DEEPEST = 12;
const HEADING = /^ {0,3}#{1,6}(?=[ \t]|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])(?:([ \t]+)(?=\S)|[ \t]*$)/;
const HTML =
  /^ {0,3}<(?:!--|[?]|![a-zA-Z]|\/?(?:address|article|aside|blockquote|body|center|details|dialog|dd|div|dl|dt|fieldset|figure|footer|form|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|nav|ol|p|pre|script|section|source|style|summary|table|tbody|td|textarea|tfoot|th|thead|title|tr|ul)(?=[\s/>]|$))/i;
const CODE = /^(?: {4}| {0,3}\t)/;
const blank = (line: string | undefined) => line === undefined || line.trim() === '';

interface Block {
  text: string;
  kind: 'paragraph' | 'heading' | 'html' | 'list' | 'other';
}

/** The longest description that people read, in characters. The rest is left out. */
const LONGEST = 65_536;

/** The plain text of a Markdown text. */
export function plainText(markdown: string): string {
  const references = new Map<string, string>();
  const lines = definitionsOut(markdown.slice(0, LONGEST).replaceAll(/\r\n?/g, '\n').split('\n'), references);
  return join(blocksOf(lines, references, 0)).trim();
}

/** Removes `[label]: address` lines from a document and adds them to the references. */
function definitionsOut(lines: string[], references: Map<string, string>): string[] {
  return lines.filter((line, at) => {
    const label = /^ {0,3}\[([^[\]]{1,999})\]:[ \t]*/.exec(line);
    if (!label || (at > 0 && !blank(lines[at - 1]) && !lines[at - 1]!.startsWith('['))) return true;
    const address = addressAt(line, label[0].length);
    if (!address || address.address === '') return true;
    const rest = line.slice(address.end).trimStart();
    if (rest !== '' && titleEnd(rest, 0) !== rest.trimEnd().length) return true;
    const key = labelKey(label[1]!);
    if (!references.has(key)) references.set(key, address.address);
    return false;
  });
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

/** Whether a line ends the paragraph before it. */
function interrupts(line: string): boolean {
  const item = ITEM.exec(line);
  return (
    HEADING.test(line) ||
    FENCE.test(line) ||
    QUOTE.test(line) ||
    RULE.test(line) ||
    HTML.test(line) ||
    (item?.[4] !== undefined && (item[3] === undefined || item[3] === '1'))
  );
}

function blocksOf(lines: string[], references: Map<string, string>, depth: number): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    if (blank(line)) {
      at++;
      continue;
    }
    const from = at;
    const nested = depth < DEEPEST;
    if (CODE.test(line)) {
      while (at < lines.length && (CODE.test(lines[at]!) || blank(lines[at]))) at++;
      const code = lines.slice(from, at).map((one) => one.replace(CODE, ''));
      blocks.push({ kind: 'other', text: code.join('\n').trimEnd() });
    } else if (HEADING.test(line)) {
      at++;
      blocks.push({ kind: 'heading', text: inlineText(headingText(line), references) });
    } else if (RULE.test(line)) at++;
    else if (FENCE.test(line) && !(line.trimStart()[0] === '`' && FENCE.exec(line)![2]!.includes('`'))) {
      at = fenceEnd(lines, at);
      blocks.push({ kind: 'other', text: fencedText(lines.slice(from, at)) });
    } else if (HTML.test(line)) {
      at = htmlEnd(lines, at);
      blocks.push({ kind: 'html', text: htmlText(lines.slice(from, at).join('\n')).trim() });
    } else if (nested && QUOTE.test(line)) {
      at = withLazyLines(lines, at, (one) => QUOTE.test(one));
      const inner = lines.slice(from, at).map((one) => one.replace(QUOTE, ''));
      blocks.push({ kind: 'other', text: join(blocksOf(inner, references, depth + 1)) });
    } else if (nested && ITEM.test(line)) {
      const list = listAt(lines, at, references, depth);
      at = list.end;
      blocks.push({ kind: 'list', text: list.text });
    } else {
      at++;
      let heading = false;
      for (; at < lines.length && !blank(lines[at]); at++) {
        heading = /^ {0,3}(?:=+|-+)[ \t]*$/.test(lines[at]!);
        if (heading || interrupts(lines[at]!)) break;
      }
      const text = inlineText(lines.slice(from, at).join('\n').trim(), references);
      if (heading) at++;
      blocks.push({ kind: heading ? 'heading' : 'paragraph', text });
    }
  }
  return blocks;
}

function headingText(line: string): string {
  const text = line.trim().replace(/^#+/, '').trim();
  let end = text.length;
  while (text[end - 1] === '#') end--;
  return end === 0 || /\s/.test(text[end - 1]!) ? text.slice(0, end).trimEnd() : text;
}

function fenceEnd(lines: string[], at: number): number {
  const mark = FENCE.exec(lines[at]!)![1]!;
  for (let end = at + 1; end < lines.length; end++) {
    const close = FENCE.exec(lines[end]!);
    if (close && close[1]!.startsWith(mark) && blank(close[2])) return end + 1;
  }
  return lines.length;
}

function fencedText(lines: string[]): string {
  const indent = lines[0]!.length - lines[0]!.trimStart().length;
  const closed = lines.length > 1 && FENCE.test(lines.at(-1)!) && blank(FENCE.exec(lines.at(-1)!)![2]);
  const code = lines.slice(1, closed ? -1 : undefined);
  return code.map((line) => line.slice(Math.min(indent, line.length - line.trimStart().length))).join('\n');
}

function htmlEnd(lines: string[], at: number): number {
  const opening = /^ {0,3}<(!--|script|style|pre|textarea)/i.exec(lines[at]!)?.[1]?.toLowerCase();
  const close = opening === '!--' ? '-->' : opening && `</${opening}>`;
  for (let end = at; end < lines.length; end++) {
    if (close ? lines[end]!.toLowerCase().includes(close) : blank(lines[end + 1])) return end + 1;
  }
  return lines.length;
}

/** The position after the matching lines and the unmarked lines that continue their last paragraph. */
function withLazyLines(lines: string[], at: number, holds: (line: string) => boolean): number {
  let end = at + 1;
  while (end < lines.length) {
    const line = lines[end]!;
    if (!holds(line) && (blank(line) || blank(lines[end - 1]!.replace(QUOTE, '')) || interrupts(line))) break;
    end++;
  }
  return end;
}

function listAt(
  lines: string[],
  from: number,
  references: Map<string, string>,
  depth: number,
): { text: string; end: number } {
  const kind = (item: RegExpExecArray) => (item[3] === undefined ? item[2]! : item[2]!.at(-1)!);
  const first = ITEM.exec(lines[from]!)!;
  let number = Number(first[3] ?? 0);
  const texts: string[] = [];
  let at = from;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]!);
    if (!item || kind(item) !== kind(first) || RULE.test(lines[at]!)) break;
    const blanks = item[4]?.length ?? 1;
    const indent = item[1]!.length + item[2]!.length + (blanks > 4 ? 1 : blanks);
    const inner = [lines[at]!.slice(indent)];
    let end = at + 1;
    for (; end < lines.length; end++) {
      const line = lines[end]!;
      if (blank(line)) inner.push('');
      else if (leadingBlanks(line) >= indent) inner.push(line.slice(indent));
      else if (!blank(lines[end - 1]) && !interrupts(line) && !ITEM.test(line)) inner.push(line.trimStart());
      else break;
    }
    at = end;
    const text = itemText(blocksOf(inner, references, depth + 1));
    if (first[3] !== undefined) texts.push(`${number++}. ${text}`);
    else if (text !== '') texts.push(text);
  }
  return { text: texts.join('\n'), end: at };
}

function leadingBlanks(line: string): number {
  let count = 0;
  while (line[count] === ' ') count++;
  return count;
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
