// HTML inside Markdown: only its text is kept.

const TAG = /<(?:\/?[a-zA-Z][^<>]*|[!?][^<>]*)>/y;
/** Elements whose content is not shown. */
const HIDDEN = /<(script|style)(?=[\s>])/iy;

/** The start and end of each tag, comment, script and style sheet. */
export function withoutTags(text: string): Map<number, number> {
  const found = new Map<number, number>();
  const missing = new Set<string>();
  /** The position after the next such word. A word that is not found is searched for only once. */
  const behind = (word: string, from: number): number | undefined => {
    if (missing.has(word)) return undefined;
    const at = text.indexOf(word, from);
    if (at < 0) missing.add(word);
    return at < 0 ? undefined : at + word.length;
  };
  for (let at = text.indexOf('<'); at >= 0; at = text.indexOf('<', at)) {
    HIDDEN.lastIndex = at;
    TAG.lastIndex = at;
    const hidden = HIDDEN.exec(text);
    let end: number | undefined;
    if (text.startsWith('<!--', at)) end = behind('-->', at + 4);
    else if (hidden) end = behind(`</${hidden[1]}>`, at);
    end ??= text.startsWith('<!--', at) ? undefined : TAG.exec(text) ? TAG.lastIndex : undefined;
    if (end !== undefined) found.set(at, end);
    at = end ?? at + 1;
  }
  return found;
}

/** The text of HTML. */
export function htmlText(html: string): string {
  let text = '';
  let at = 0;
  for (const [from, to] of withoutTags(html)) {
    text += html.slice(at, from);
    at = to;
  }
  return text + html.slice(at);
}
