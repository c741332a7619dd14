interface Field {
  name: string;
  least: number;
  most: number;
  names?: string[];
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const FIELDS: Field[] = [
  { name: 'second', least: 0, most: 59 },
  { name: 'minute', least: 0, most: 59 },
  { name: 'hour', least: 0, most: 23 },
  { name: 'day of month', least: 1, most: 31 },
  { name: 'month', least: 1, most: 12, names: MONTHS },
  { name: 'day of week', least: 0, most: 6, names: DAYS },
];

function point(text: string, field: Field): number | undefined {
  const named = field.names?.indexOf(text.toLowerCase()) ?? -1;
  if (named >= 0) return named + field.least;
  return /^\d{1,4}$/.test(text) ? Number(text) : undefined;
}

function partError(part: string, field: Field): string | undefined {
  const [range = '', step, extra] = part.split('/');
  if (extra !== undefined || (step !== undefined && !/^[1-9]\d{0,3}$/.test(step)))
    return `"${part}" is no ${field.name}`;
  if (range === '*' || range === '?') return undefined;
  const ends = range.split('-').map((end) => point(end, field));
  if (ends.length > 2 || ends.some((end) => end === undefined)) return `"${part}" is no ${field.name}`;
  const [from, to = from] = ends as number[];
  if (from! < field.least || to! > field.most)
    return `${field.name} must be from ${field.least} to ${field.most}, not "${part}"`;
  return from! > to! ? `${field.name} range "${part}" runs backwards` : undefined;
}

/** Says what is wrong with a cron expression of 6 fields (seconds first) or of the usual 5; nothing when it is right. */
export function cronError(expression: string, fields: 5 | 6): string | undefined {
  const descriptor = /^@(yearly|annually|monthly|weekly|daily|midnight|hourly|every \S+)$/;
  if (fields === 6 && descriptor.test(expression.trim())) return undefined;
  const given = expression.trim().split(/\s+/);
  if (given.length !== fields) return `a schedule has ${fields} fields, "${expression}" has ${given.length}`;
  const kinds = FIELDS.slice(6 - fields);
  for (const [i, text] of given.entries())
    for (const part of text.split(',')) {
      const said = partError(part, kinds[i]!);
      if (said !== undefined) return said;
    }
  return undefined;
}
