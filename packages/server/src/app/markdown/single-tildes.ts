// Text between single tildes is struck out, as GitHub's Markdown has it. markdown-it knows only pairs of tildes.

import type { MarkdownIt, StateInline } from 'markdown-it';

/** Differs from each character's code, so that a single tilde never closes a pair. */
const MARKER = -0x7e;

/** A plugin that removes the tildes. */
export function singleTildes(markdown: MarkdownIt): void {
  markdown.inline.ruler.before('strikethrough', 'single_tilde', (state, silent) => {
    if (silent || state.src[state.pos] !== '~') return false;
    const { length, can_open: open, can_close: close } = state.scanDelims(state.pos, true);
    if (length !== 1) return false;
    state.push('text', '', 0).content = '~';
    state.delimiters.push({ marker: MARKER, length: 0, token: state.tokens.length - 1, end: -1, open, close });
    state.pos++;
    return true;
  });
  markdown.inline.ruler2.after('balance_pairs', 'single_tilde', (state) => {
    removeMatched(state, state.delimiters);
    for (const meta of state.tokens_meta) if (meta?.delimiters) removeMatched(state, meta.delimiters);
    return false;
  });
}

function removeMatched({ tokens }: StateInline, delimiters: StateInline['delimiters']): void {
  for (const { marker, end, token } of delimiters) {
    if (marker !== MARKER || end === -1) continue;
    tokens[token]!.content = '';
    tokens[delimiters[end]!.token]!.content = '';
  }
}
