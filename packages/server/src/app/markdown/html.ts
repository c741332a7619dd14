// HTML inside Markdown: only its text is kept.

const TAG = /<(?:\/?[a-zA-Z][^<>]*|[!?][^<>]*)>/y;
/** Elements whose content is not shown. */
const HIDDEN = /<(script|style)(?=[\s>])/iy;

/** The text of HTML. */
export function htmlText(html: string): string {
  let text = '';
  let shown = 0;
  const missing = new Set<string>();
  /** The position after the next such word. A word that is not found is searched for only once. */
  const behind = (word: string, from: number): number | undefined => {
    if (missing.has(word)) return undefined;
    const at = html.indexOf(word, from);
    if (at < 0) missing.add(word);
    return at < 0 ? undefined : at + word.length;
  };
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at)) {
    HIDDEN.lastIndex = at;
    TAG.lastIndex = at;
    const hidden = HIDDEN.exec(html);
    let end: number | undefined;
    if (html.startsWith('<!--', at)) end = behind('-->', at + 4);
    else if (hidden) end = behind(`</${hidden[1]}>`, at);
    end ??= html.startsWith('<!--', at) ? undefined : TAG.exec(html) ? TAG.lastIndex : undefined;
    if (end !== undefined) {
      text += html.slice(shown, at);
      shown = end;
    }
    at = end ?? at + 1;
  }
  return text + html.slice(shown);
}
