/**
 * Characters that act on a terminal or hide in a text instead of being shown: control characters (C0, DEL and C1),
 * direction marks, embeddings, overrides and isolates, zero-width and other format characters, line and paragraph
 * separators, fillers, and halves of surrogate pairs. Excluded are the signs that Unicode counts as format characters but
 * that have a shape, and the joiner between two pictures of an emoji.
 */
const ACTING =
  /(?!(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?=\p{Extended_Pictographic}))[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u115f\u1160\u3164\uffa0]--[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2]]/gv;
/** Most texts: nothing to replace. */
const HARMLESS = /^[\x20-\x7e]*$/;

const escaped = (char: string) =>
  Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');

/**
 * Replaces the characters of a text that act on a terminal, or that hide, by escapes such as `\u001b`. JSON stays the same
 * value. `keep` holds characters that stay, such as line breaks.
 */
export function visible(text: string, keep = ''): string {
  if (HARMLESS.test(text)) return text;
  return text.replaceAll(ACTING, (char) => (keep.includes(char) ? char : escaped(char)));
}
