const CONTEXT = 3;

/** The difference between two texts that differ in one place, as one hunk of a unified diff. Empty for equal texts. */
export function oneHunk(before: string, after: string, name: string): string {
  if (before === after) return '';
  const [old, now] = [lines(before), lines(after)];
  let same = 0;
  while (same < old.length && same < now.length && old[same] === now[same]) same++;
  let tail = 0;
  while (
    tail < old.length - same &&
    tail < now.length - same &&
    old[old.length - 1 - tail] === now[now.length - 1 - tail]
  ) {
    tail++;
  }
  const start = Math.max(0, same - CONTEXT);
  const rest = Math.max(0, tail - CONTEXT);
  const range = (all: string[]) => {
    const count = all.length - rest - start;
    return `${count === 0 ? start : start + 1},${count}`;
  };
  const marked = (mark: string, part: string[]) =>
    part.map((line) => `${mark}${line.endsWith('\n') ? line : `${line}\n\\ No newline at end of file\n`}`);
  return [
    `--- ${name}\n+++ ${name}\n@@ -${range(old)} +${range(now)} @@\n`,
    ...marked(' ', old.slice(start, same)),
    ...marked('-', old.slice(same, old.length - tail)),
    ...marked('+', now.slice(same, now.length - tail)),
    ...marked(' ', old.slice(old.length - tail, old.length - rest)),
  ].join('');
}

const lines = (text: string) => (text === '' ? [] : text.split(/(?<=\n)/).filter((line) => line !== ''));
