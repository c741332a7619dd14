/** A problem of a template that its import reports, with the place in the source if Terraform names one. */
export interface Problem {
  severity: 'error' | 'warning';
  summary: string;
  detail: string;
  file?: string;
  line?: number;
}

const START = /^(Error|Warning): (.+)$/;
/** `  on main.tf line 12, in resource "x" "y":`. A range of lines names its first one. */
const PLACE = /^\s+on (.+?) line (\d+)(?:,|:|$)/;
/** The quoted source: `  12:   input = var.missing`. */
const QUOTED = /^\s*\d+: /;
/** Frames that Terraform draws around messages in a terminal. */
const FRAME = /^[│╷╵]\s?/;

/**
 * Reads the problems from an import's log. Terraform prints `Error: <summary>`, then the place, the quoted source and
 * the explanation.
 */
export function problemsOf(lines: readonly { text: string; level: string }[]): Problem[] {
  const problems: Problem[] = [];
  let current: Problem | undefined;
  for (const { text, level } of lines) {
    if (level !== 'error' && level !== 'warn') {
      current = undefined;
      continue;
    }
    for (const raw of text.split('\n')) {
      const line = raw.replace(FRAME, '');
      const start = START.exec(line);
      if (start) {
        current = { severity: start[1] === 'Error' ? 'error' : 'warning', summary: start[2]!, detail: '' };
        problems.push(current);
        continue;
      }
      if (!current) continue;
      const place = current.file === undefined && PLACE.exec(line);
      if (place) {
        current.file = place[1]!;
        current.line = Number(place[2]);
      } else if (line.trim() !== '' && !QUOTED.test(line)) {
        current.detail += (current.detail ? '\n' : '') + line.trim();
      }
    }
  }
  return unique(problems);
}

/** Terraform runs several times during an import and repeats itself. */
function unique(problems: Problem[]): Problem[] {
  const seen = new Set<string>();
  return problems.filter((problem) => {
    const key = JSON.stringify(problem);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}
