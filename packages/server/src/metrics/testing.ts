import assert from 'node:assert/strict';

export interface Family {
  type: string;
  help: string;
  samples: { name: string; labels: Record<string, string>; value: number }[];
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const SUFFIXES: Record<string, string[]> = {
  counter: [''],
  gauge: [''],
  histogram: ['_bucket', '_sum', '_count'],
  summary: ['', '_sum', '_count'],
};

/** Parses the text format 0.0.4, and fails for anything that a strict parser would reject. */
export function parseMetrics(text: string): Map<string, Family> {
  assert.ok(text.endsWith('\n'), 'the last line has no end');
  const families = new Map<string, Family>();
  const series = new Set<string>();
  let current: [string, Family] | undefined;
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const help = /^# HELP (\S+) (.*)$/.exec(line);
    if (help) {
      const [, name, words] = help as unknown as [string, string, string];
      assert.match(name, NAME);
      assert.ok(!families.has(name), `${name} comes twice`);
      assert.ok(words.trim() !== '', `${name} has no help`);
      current = [name, { type: '', help: words, samples: [] }];
      families.set(...current);
      continue;
    }
    const type = /^# TYPE (\S+) (\S+)$/.exec(line);
    if (type) {
      assert.ok(current && current[0] === type[1] && current[1].type === '', `TYPE without its HELP: ${line}`);
      assert.ok(type[2]! in SUFFIXES, line);
      current[1].type = type[2]!;
      continue;
    }
    assert.ok(!line.startsWith('#'), `unknown comment: ${line}`);
    assert.ok(current && current[1].type !== '', `a sample before its TYPE: ${line}`);
    const sample = parseSample(line);
    const [family, { type: kind, samples }] = current;
    assert.ok(
      SUFFIXES[kind]!.some((suffix) => sample.name === family + suffix),
      `${sample.name} stands under ${family}`,
    );
    const identity = JSON.stringify([sample.name, Object.entries(sample.labels).sort()]);
    assert.ok(!series.has(identity), `twice: ${line}`);
    series.add(identity);
    samples.push(sample);
  }
  for (const [name, family] of families) {
    assert.notEqual(family.type, '', `${name} has no TYPE`);
    if (family.type === 'histogram') checkHistogram(name, family);
    if (family.type === 'counter') for (const { value } of family.samples) assert.ok(value >= 0, name);
  }
  return families;
}

function parseSample(line: string): Family['samples'][number] {
  const parts = /^([^\s{]+)(?:\{(.*)\})? (\S+)$/.exec(line);
  assert.ok(parts, `not a sample: ${line}`);
  const [, name, inside = '', number] = parts as unknown as [string, string, string | undefined, string];
  assert.match(name, NAME);
  const labels: Record<string, string> = {};
  let rest = inside;
  while (rest !== '') {
    const label = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(,|$)/.exec(rest);
    assert.ok(label, `not labels: ${inside}`);
    assert.ok(!Object.hasOwn(labels, label[1]!), `a label twice: ${line}`);
    labels[label[1]!] = label[2]!.replaceAll(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
    rest = rest.slice(label[0].length);
  }
  const value = number === '+Inf' ? Infinity : number === '-Inf' ? -Infinity : Number(number);
  assert.ok(number === 'NaN' || !Number.isNaN(value), `not a number: ${line}`);
  return { name, labels, value };
}

/** Checks that buckets rise, and that the last one is infinite and equals the count. */
function checkHistogram(name: string, { samples }: Family): void {
  const groups = new Map<string, { last: number; bound: number; count?: number; sum?: number }>();
  for (const { name: full, labels, value } of samples) {
    const { le, ...rest } = labels;
    const key = JSON.stringify(Object.entries(rest).sort());
    const group = groups.get(key) ?? { last: 0, bound: -Infinity };
    groups.set(key, group);
    if (full === `${name}_bucket`) {
      const bound = le === '+Inf' ? Infinity : Number(le);
      assert.ok(le !== undefined && bound > group.bound && value >= group.last, `${name} ${key} le=${le}`);
      Object.assign(group, { last: value, bound });
    } else if (full === `${name}_sum`) group.sum = value;
    else group.count = value;
  }
  for (const [key, { last, bound, count, sum }] of groups) {
    assert.ok(bound === Infinity && count === last && sum !== undefined, `${name} ${key}`);
  }
}

/** The value of one series. Undefined if it does not exist. */
export function sampleOf(
  families: Map<string, Family>,
  name: string,
  labels: Record<string, string> = {},
): number | undefined {
  const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ''));
  return family?.samples.find(
    (one) =>
      one.name === name &&
      Object.keys(one.labels).length === Object.keys(labels).length &&
      Object.entries(labels).every(([key, value]) => one.labels[key] === value),
  )?.value;
}
