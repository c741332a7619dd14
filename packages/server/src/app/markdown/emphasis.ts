// Finds which runs of `*`, `_` and `~` in a paragraph are marks and which are text, by CommonMark's rules. It takes
// linear time, as CommonMark describes: where a mark found no opener, no later search goes below that place.

interface Run {
  char: string;
  /** Characters of the run that are still text. */
  left: number;
  /** The original length of the run. */
  length: number;
  piece: number;
  opens: boolean;
  closes: boolean;
  before: Run | undefined;
  after: Run | undefined;
  order: number;
}

/** The runs of a text, in order. */
export interface Delimiters {
  first: Run | undefined;
  last: Run | undefined;
}

const SPACE = /\s/;
const PUNCTUATION = /[\p{P}\p{S}]/u;

/** Adds the run of `length` characters at `at`. The piece with this index is its text. */
export function addRun(runs: Delimiters, text: string, at: number, length: number, piece: number): void {
  const char = text[at]!;
  const previous = text[at - 1] ?? ' ';
  const next = text[at + length] ?? ' ';
  const leftFlanking =
    !SPACE.test(next) && (!PUNCTUATION.test(next) || SPACE.test(previous) || PUNCTUATION.test(previous));
  const rightFlanking =
    !SPACE.test(previous) && (!PUNCTUATION.test(previous) || SPACE.test(next) || PUNCTUATION.test(next));
  const word = char === '_';
  const run: Run = {
    char,
    left: length,
    length,
    piece,
    opens: leftFlanking && (!word || !rightFlanking || PUNCTUATION.test(previous)),
    closes: rightFlanking && (!word || !leftFlanking || PUNCTUATION.test(next)),
    before: runs.last,
    after: undefined,
    order: (runs.last?.order ?? 0) + 1,
  };
  if (runs.last) runs.last.after = run;
  else runs.first = run;
  runs.last = run;
}

/** Removes the characters that are marks from the pieces. */
export function removeMarks(runs: Delimiters, pieces: string[]): void {
  const bottoms = new Map<string, number>();
  for (let closer = runs.first; closer; ) {
    if (!closer.closes || closer.left === 0) {
      closer = closer.after;
      continue;
    }
    const kind = `${closer.char}${closer.opens}${closer.char === '~' ? closer.length : closer.length % 3}`;
    const bottom = bottoms.get(kind) ?? 0;
    let opener = closer.before;
    while (opener && opener.order > bottom && !matches(opener, closer)) opener = opener.before;
    if (!opener || opener.order <= bottom) {
      bottoms.set(kind, closer.before?.order ?? 0);
      closer = closer.after;
      continue;
    }
    const used = closer.char === '~' ? closer.length : opener.left >= 2 && closer.left >= 2 ? 2 : 1;
    opener.left -= used;
    closer.left -= used;
    // the runs between them are text now
    opener.after = closer;
    closer.before = opener;
    if (opener.left === 0) unlink(runs, opener, pieces);
    if (closer.left === 0) {
      const next: Run | undefined = closer.after;
      unlink(runs, closer, pieces);
      closer = next;
    }
  }
  for (let run = runs.first; run; run = run.after) pieces[run.piece] = run.char.repeat(run.left);
}

function matches(opener: Run, closer: Run): boolean {
  if (opener.char !== closer.char || !opener.opens) return false;
  if (opener.char === '~') return opener.left === closer.left && closer.length <= 2;
  const odd = (opener.closes || closer.opens) && (opener.length + closer.length) % 3 === 0;
  return !odd || (opener.length % 3 === 0 && closer.length % 3 === 0);
}

function unlink(runs: Delimiters, run: Run, pieces: string[]): void {
  pieces[run.piece] = '';
  if (run.before) run.before.after = run.after;
  else runs.first = run.after;
  if (run.after) run.after.before = run.before;
  else runs.last = run.before;
}
