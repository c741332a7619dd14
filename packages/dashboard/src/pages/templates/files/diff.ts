/** Differences between two texts by line, and between two sets of files. */

/** A line that both texts have, or only the old (`removed`) or the new one (`added`). Numbers count from 1. */
export interface DiffLine {
  kind: 'same' | 'removed' | 'added';
  text: string;
  oldLine?: number;
  newLine?: number;
}

/** Beyond this many differences, finding the smallest set takes too long: the texts then differ as a whole. */
const MAX_EDITS = 3_000;

/** The lines of a text. A line break at its end does not begin another line. */
export function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** The smallest set of removed and added lines, by Myers' algorithm. */
export function diffLines(before: string, after: string): DiffLine[] {
  const a = linesOf(before);
  const b = linesOf(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const kinds = [
    ...Array<'same'>(start).fill('same'),
    ...shortestEdit(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...Array<'same'>(end).fill('same'),
  ];
  let oldAt = 0;
  let newAt = 0;
  return kinds.map((kind): DiffLine => {
    if (kind === 'removed') return { kind, text: a[oldAt]!, oldLine: ++oldAt };
    if (kind === 'added') return { kind, text: b[newAt]!, newLine: ++newAt };
    return { kind, text: a[oldAt]!, oldLine: ++oldAt, newLine: ++newAt };
  });
}

function shortestEdit(a: string[], b: string[]): DiffLine['kind'][] {
  const whole = (): DiffLine['kind'][] => [
    ...Array<'removed'>(a.length).fill('removed'),
    ...Array<'added'>(b.length).fill('added'),
  ];
  if (a.length === 0 || b.length === 0) return whole();
  const most = Math.min(a.length + b.length, MAX_EDITS);
  const offset = most + 1;
  // how far in `a` each diagonal gets with the edits so far; `trace` keeps it for the way back
  const reach = new Int32Array(2 * most + 3);
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits++) {
    trace.push(reach.slice(offset - edits - 1, offset + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reach[offset + k - 1]! < reach[offset + k + 1]!);
      let x = down ? reach[offset + k + 1]! : reach[offset + k - 1]! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reach[offset + k] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(trace, a.length, b.length);
    }
  }
  return whole();
}

function walkBack(trace: readonly Int32Array[], x: number, y: number): DiffLine['kind'][] {
  const kinds: DiffLine['kind'][] = [];
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const reach = trace[edits]!;
    const at = (k: number) => reach[k + edits + 1]!;
    const k = x - y;
    const down = k === -edits || (k !== edits && at(k - 1) < at(k + 1));
    const fromX = edits === 0 ? 0 : down ? at(k + 1) : at(k - 1);
    const fromY = edits === 0 ? 0 : fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY) {
      kinds.push('same');
      x--;
      y--;
    }
    if (edits === 0) break;
    kinds.push(down ? 'added' : 'removed');
    x = fromX;
    y = fromY;
  }
  return kinds.reverse();
}

/** Lines around changes, and how many equal lines were left out before them. */
export interface Hunk {
  skipped: number;
  lines: DiffLine[];
}

/** The changed parts of a diff with `context` equal lines around each. */
export function hunksOf(lines: readonly DiffLine[], context = 3): Hunk[] {
  const hunks: Hunk[] = [];
  let end = 0;
  for (let at = 0; at < lines.length; at++) {
    if (lines[at]!.kind === 'same') continue;
    const from = Math.max(end, at - context);
    let to = at + 1;
    for (let next = at; next < lines.length && next <= to + 2 * context; next++)
      if (lines[next]!.kind !== 'same') to = next + 1;
    const until = Math.min(lines.length, to + context);
    hunks.push({ skipped: from - end, lines: lines.slice(from, until) });
    end = until;
    at = until - 1;
  }
  return hunks;
}

/** The rows of a side-by-side view: removed lines face the added ones that follow them. */
export function sideBySide(lines: readonly DiffLine[]): { left?: DiffLine; right?: DiffLine }[] {
  const rows: { left?: DiffLine; right?: DiffLine }[] = [];
  for (let at = 0; at < lines.length; ) {
    if (lines[at]!.kind === 'same') {
      rows.push({ left: lines[at]!, right: lines[at]! });
      at++;
      continue;
    }
    const removed: DiffLine[] = [];
    const added: DiffLine[] = [];
    for (; at < lines.length && lines[at]!.kind !== 'same'; at++)
      (lines[at]!.kind === 'removed' ? removed : added).push(lines[at]!);
    for (let row = 0; row < Math.max(removed.length, added.length); row++) {
      rows.push({ ...(removed[row] ? { left: removed[row] } : {}), ...(added[row] ? { right: added[row] } : {}) });
    }
  }
  return rows;
}

/** A file that differs. Files that are not texts have no lines. */
export interface FileChange {
  path: string;
  kind: 'added' | 'removed' | 'changed';
  lines: DiffLine[];
  added: number;
  removed: number;
}

/** The files that differ, by path. A value is a file's text; undefined stands for bytes that are not a text. */
export function diffFiles(
  before: ReadonlyMap<string, string | undefined>,
  after: ReadonlyMap<string, string | undefined>,
  sameBytes: (path: string) => boolean = () => false,
): FileChange[] {
  const paths = [...new Set([...before.keys(), ...after.keys()])].sort();
  return paths.flatMap((path): FileChange[] => {
    const had = before.has(path);
    const has = after.has(path);
    const old = before.get(path);
    const now = after.get(path);
    if (had && has && (old === undefined && now === undefined ? sameBytes(path) : old === now)) return [];
    const lines = (had && old === undefined) || (has && now === undefined) ? [] : diffLines(old ?? '', now ?? '');
    return [
      {
        path,
        kind: had ? (has ? 'changed' : 'removed') : 'added',
        lines,
        added: lines.filter(({ kind }) => kind === 'added').length,
        removed: lines.filter(({ kind }) => kind === 'removed').length,
      },
    ];
  });
}
