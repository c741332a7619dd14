import { AppError } from '@ropewalk/kit/errors';

export interface Edit {
  search: string;
  replace: string;
  replace_all?: boolean | undefined;
}

/**
 * Replaces texts in a text, one edit after the other.
 * @throws AppError `invalid` for a text that is absent, or that occurs several times without `replace_all`
 */
export function applyEdits(path: string, before: string, edits: readonly Edit[]): string {
  let content = before;
  for (const [index, { search, replace, replace_all: all = false }] of edits.entries()) {
    const which = `${path}: edits[${index}].search`;
    if (search === '') throw new AppError('invalid', `${which} is empty.`);
    const parts = content.split(search);
    if (parts.length === 1) throw new AppError('invalid', `${which} does not occur in the file.`);
    if (parts.length > 2 && !all) {
      const count = parts.length - 1;
      throw new AppError('invalid', `${which} occurs ${count} times. Give more of the text around it, or replace_all.`);
    }
    content = parts.join(replace);
  }
  return content;
}

const CONTEXT = 3;

/** A unified diff with one hunk from the first to the last line that differs. Empty if nothing does. */
export function unifiedDiff(path: string, before: string, after: string): string {
  if (before === after) return '';
  const [old, now] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < Math.min(old.length, now.length) && old[start] === now[start]) start++;
  let end = 0;
  const most = Math.min(old.length, now.length) - start;
  while (end < most && old[old.length - 1 - end] === now[now.length - 1 - end]) end++;
  const from = Math.max(0, start - CONTEXT);
  const keep = Math.max(0, end - CONTEXT);
  const removed = old.slice(start, old.length - end);
  const added = now.slice(start, now.length - end);
  const lead = old.slice(from, start);
  const trail = old.slice(old.length - end, old.length - keep);
  const size = (lines: readonly string[]) => lead.length + lines.length + trail.length;
  return [
    `--- ${path}`,
    `+++ ${path}`,
    `@@ -${from + 1},${size(removed)} +${from + 1},${size(added)} @@`,
    ...lead.map((line) => ` ${line}`),
    ...removed.map((line) => `-${line}`),
    ...added.map((line) => `+${line}`),
    ...trail.map((line) => ` ${line}`),
    '',
  ].join('\n');
}
