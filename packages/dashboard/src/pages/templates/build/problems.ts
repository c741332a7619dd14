import { type ExcerptLine, excerptOf, isFiller, withoutFrame } from '../../../ui/log-errors.ts';

/** A problem of a template that its import reports, with the place in the source if Terraform names one. */
export interface Problem {
  severity: 'error' | 'warning';
  summary: string;
  detail: string;
  file?: string;
  line?: number;
  /** Its lines of the log. */
  excerpt: ExcerptLine[];
}

const START = /^(Error|Warning): (.+)$/;
/** `  on main.tf line 12, in resource "x" "y":`. A range of lines names its first one. */
const PLACE = /^\s+on (.+?) line (\d+)(?:,|:|$)/;

/**
 * Reads the problems from an import's log. Terraform prints `Error: <summary>`, then the place, the quoted source and
 * the explanation.
 */
export function problemsOf(lines: readonly { text: string; level: string }[]): Problem[] {
  const problems: (Problem & { lines: { index: number; text: string }[] })[] = [];
  let current: (typeof problems)[number] | undefined;
  for (const [index, { text, level }] of lines.entries()) {
    if (level !== 'error' && level !== 'warn') {
      current = undefined;
      continue;
    }
    for (const raw of text.split('\n')) {
      const line = withoutFrame(raw);
      const start = START.exec(line);
      if (start) {
        const severity = start[1] === 'Error' ? 'error' : 'warning';
        current = { severity, summary: start[2]!, detail: '', excerpt: [], lines: [{ index, text: line }] };
        problems.push(current);
        continue;
      }
      if (!current || isFiller(line)) continue;
      current.lines.push({ index, text: line });
      const place = current.file === undefined && PLACE.exec(line);
      if (place) {
        current.file = place[1]!;
        current.line = Number(place[2]);
      } else {
        current.detail += (current.detail ? '\n' : '') + line.trim();
      }
    }
  }
  return unique(problems.map(({ lines: of, ...problem }) => ({ ...problem, excerpt: excerptOf(of) })));
}

/** Terraform runs several times during an import and repeats itself: the first place in the log counts. */
function unique(problems: Problem[]): Problem[] {
  const seen = new Set<string>();
  return problems.filter((problem) => {
    const key = JSON.stringify({ ...problem, excerpt: [] });
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}
