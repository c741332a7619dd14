// Makes the tables of docs/scale.md and its pictures from the results file.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Chart, drawChart } from './curves.ts';
import { fitLine, growthOfCost, type Line, type Point } from './fit.ts';
import { TIERS } from './options.ts';
import { type Latency, type RunResult, readResults, readSoak, type WindowResult } from './results.ts';
import { growthPerHour, type Moment, SETTLED_MINUTES, type SoakResult, type TableSize } from './soak-verdict.ts';

const docs = join(dirname(dirname(import.meta.dirname)), 'docs');

const fixed = (value: number | null, digits = 0) =>
  value === null || Number.isNaN(value)
    ? '–'
    : value.toLocaleString('en-US', { maximumFractionDigits: digits, minimumFractionDigits: digits });
const percent = (cores: number) => `${fixed(cores * 100, 1)} %`;
const both = ({ p50, p99 }: Latency) => `${fixed(p50, 1)}; ${fixed(p99, 1)} ms`;

const NOT_MEASURED = 'Not measured yet.';

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

const verdictOf = ({ checks, saturated }: RunResult): string => {
  const missed = checks
    .filter(({ met }) => !met)
    .map(({ what, value, reach }) => `**${what}: ${value}, not ${reach}**`);
  return [missed.length === 0 ? 'good' : missed.join(', '), ...(saturated ? [`full: ${saturated}`] : [])].join('; ');
};

function runsTable(runs: readonly RunResult[]): string {
  const head = [
    'run',
    'all agents connected; processor of the server and PostgreSQL for each',
    'server',
    'PostgreSQL',
    'API, p50; p99',
    'read; written per second',
    'generator',
    'other work; load',
    'verdict',
  ];
  return markdown(
    head,
    runs.map((run) => {
      const { tier, connecting, quiet } = run;
      const { server, postgres, generator } = quiet.groups;
      const alone = run.alone ? ` (${percent(run.alone.groups.server.cores)} without the owner)` : '';
      const perSecond = (megabytes: number) => fixed((megabytes / quiet.seconds) * 1_000);
      return [
        `${tier}, ${fixed(quiet.seconds)} s`,
        `${fixed(connecting.seconds, 1)} s; ${fixed(connecting.serverMsEach, 1)}, ${fixed(connecting.postgresMsEach, 1)} ms`,
        `${percent(server.cores)}${alone}, ${fixed(server.peakMegabytes)} MB`,
        `${percent(postgres.cores)}, ${fixed(postgres.peakMegabytes)} MB`,
        both(quiet.api),
        `${perSecond(quiet.readMegabytes)}; ${perSecond(quiet.writtenMegabytes)} kB`,
        `${percent(generator.cores)}, busiest ${percent(quiet.busiestGenerator)}`,
        `${percent(quiet.others)}; ${fixed(quiet.load, 1)}`,
        verdictOf(run),
      ];
    }),
  );
}

/** The processor time that one build costs in a group, in ms: above what the quiet part of the run used. */
function perBuild({ quiet, builds }: RunResult, group: Group): number {
  return ((builds!.groups[group].cores - quiet.groups[group].cores) * builds!.seconds * 1_000) / builds!.count;
}

function buildsTable(runs: readonly RunResult[]): string {
  const head = [
    'run',
    'daemons',
    'builds per minute',
    'of the possible',
    'wait, p50; p99',
    'server',
    'PostgreSQL',
    'ms per build: server; PostgreSQL',
    'API, p99: before; meanwhile',
    'with Terraform',
  ];
  return markdown(
    head,
    runs
      .filter(({ builds }) => builds)
      .map((run) => {
        const builds = run.builds!;
        return [
          run.tier,
          `${run.counts.daemons} × ${run.counts.buildSeconds} s`,
          fixed(builds.perMinute, 1),
          percent(builds.ideal),
          `${fixed(builds.waitP50Ms / 1_000, 1)}; ${fixed(builds.waitP99Ms / 1_000, 1)} s`,
          `${percent(builds.groups.server.cores)}, ${fixed(builds.groups.server.peakMegabytes)} MB`,
          `${percent(builds.groups.postgres.cores)}, ${fixed(builds.groups.postgres.peakMegabytes)} MB`,
          `${fixed(perBuild(run, 'server'))}; ${fixed(perBuild(run, 'postgres'))}`,
          `${fixed(run.quiet.api.p99, 1)}; ${fixed(builds.api.p99, 1)} ms (${fixed(builds.api.p99 / run.quiet.api.p99, 2)}×)`,
          `${builds.realSucceeded}`,
        ];
      }),
  );
}

const PEOPLE: readonly (readonly [name: string, heading: string])[] = [
  ['api', 'lists'],
  ['dashboard', 'dashboards'],
  ['form', 'forms'],
  ['terminal', 'terminals'],
  ['ssh', 'commands over SSH'],
  ['forward', 'forwarded ports'],
  ['sign-in', 'sign-ins'],
  ['connect', 'connections'],
];

function peopleTable(runs: readonly RunResult[]): string {
  const parts = runs
    .filter(({ tier }) => tier.startsWith('people-'))
    .flatMap((run) =>
      ([['before', run.quiet] as const, ['while builds run', run.builds] as const] as const).flatMap(
        ([part, window]) => (window ? [{ run, part, window: window as WindowResult }] : []),
      ),
    );
  if (parts.length === 0) return NOT_MEASURED;
  return markdown(
    ['run', ...PEOPLE.map(([, heading]) => heading)],
    parts.map(({ run, part, window }) => [
      `${run.tier}, ${part}`,
      ...PEOPLE.map(([name]) => {
        const latency = window.people[name];
        return latency ? `${fixed(latency.p50, 1)}; ${fixed(latency.p99, 1)}` : '–';
      }),
    ]),
  );
}

type Group = 'server' | 'postgres';

/** What grows from tier to tier: `agents-1000`. */
type Growing = 'agents' | 'watchers' | 'builds';

type Resource = 'memory' | 'processor';

/** The runs of each machine, those of the machine with most of them first. */
const byMachine = <T extends { machine: string }>(runs: readonly T[]): [machine: string, runs: T[]][] =>
  [...Map.groupBy(runs, ({ machine }) => machine)].sort(([, a], [, b]) => b.length - a.length);

/** Those of the machine that has most of them. Processor times of different machines have no common line. */
export const ofOneMachine = <T extends { machine: string }>(runs: readonly T[]): readonly T[] =>
  byMachine(runs)[0]?.[1] ?? [];

function points(runs: readonly RunResult[], growing: Growing, of: Resource, y: (run: RunResult) => number): Point[] {
  const sizes = runs.filter(({ tier }) => new RegExp(`^${growing}-\\d+$`).test(tier));
  return (of === 'memory' ? sizes : ofOneMachine(sizes)).map((run) => ({ x: run.counts[growing], y: y(run) }));
}

const megabytes = (run: RunResult, group: Group) => run.quiet.groups[group].peakMegabytes;
const cores = (run: RunResult, group: Group) => run.quiet.groups[group].cores;
/** The processor time of all builds together, in ms. */
const ofAllBuilds = (run: RunResult, group: Group) => perBuild(run, group) * run.counts.builds;

type Unit = 'kB' | 'µs per second' | 'ms';

/** A value that is too large for the unit of one agent or stream. */
function inWhole(value: number, unit: Unit): string {
  if (unit === 'kB') return `${fixed(value / 1_000)} MB`;
  return unit === 'ms' ? `${fixed(value)} ms` : `${percent(value / 1e6)} of a core`;
}

/** What the sizing formula is fitted to: its name, the unit, what grows, and the value of a run in that unit. */
const COSTS: readonly (readonly [cost: string, Unit, Growing, (run: RunResult) => number])[] = [
  ['memory of the server, idle agents', 'kB', 'agents', (run) => megabytes(run, 'server') * 1_000],
  ['processor of the server, idle agents', 'µs per second', 'agents', (run) => cores(run, 'server') * 1e6],
  ['processor of PostgreSQL, idle agents', 'µs per second', 'agents', (run) => cores(run, 'postgres') * 1e6],
  ['memory of the server, watched workspaces', 'kB', 'watchers', (run) => megabytes(run, 'server') * 1_000],
  ['processor of the server, watched workspaces', 'µs per second', 'watchers', (run) => cores(run, 'server') * 1e6],
  ['processor of the server, builds', 'ms', 'builds', (run) => ofAllBuilds(run, 'server')],
  ['processor of PostgreSQL, builds', 'ms', 'builds', (run) => ofAllBuilds(run, 'postgres')],
];

interface Curve {
  cost: string;
  unit: Unit;
  points: Point[];
  line: Line;
}

/** The costs with enough runs for a line. */
const curvesOf = (runs: readonly RunResult[]): Curve[] =>
  COSTS.flatMap(([cost, unit, growing, value]) => {
    const found = points(runs, growing, unit === 'kB' ? 'memory' : 'processor', value);
    return found.length > 1 ? [{ cost, unit, points: found, line: fitLine(found) }] : [];
  });

function costsTable(curves: readonly Curve[]): string {
  return markdown(
    [
      'cost',
      'sizes',
      'without any',
      'each',
      'largest error of a run',
      'slope at the largest sizes compared with the smallest',
    ],
    curves.map(({ cost, unit, line, points: found }) => {
      const growth = growthOfCost(found);
      return [
        cost,
        found
          .toSorted((a, b) => a.x - b.x)
          .map(({ x }) => fixed(x))
          .join('; '),
        inWhole(line.base, unit),
        `${fixed(line.each, 1)} ${unit}`,
        found.length > 2 ? percent(line.error) : '–',
        growth === undefined ? '–' : `${fixed(growth, 2)}×`,
      ];
    }),
  );
}

/** Deployments that this machine cannot hold, from the lines through what it measured. */
function paperTable(curves: readonly Curve[]): string {
  const line = (cost: string) => curves.find((curve) => curve.cost === cost)?.line;
  const memory = line('memory of the server, idle agents');
  const processor = line('processor of the server, idle agents');
  const database = line('processor of PostgreSQL, idle agents');
  if (!memory || !processor || !database) return NOT_MEASURED;
  const at = (found: Line, count: number) => found.base + found.each * count;
  return markdown(
    ['idle agents', 'server: memory', 'server: processor', 'PostgreSQL: processor'],
    [10_000, 30_000, 100_000].map((count) => [
      fixed(count),
      `${fixed(at(memory, count) / 1e6, 1)} GB`,
      `${fixed(at(processor, count) / 1e6, 2)} cores`,
      `${fixed(at(database, count) / 1e6, 2)} cores`,
    ]),
  );
}

function chartsOf(runs: readonly RunResult[]): Record<string, Chart> {
  const series = (growing: Growing, of: Resource, value: (run: RunResult, group: Group) => number) =>
    (['server', 'postgres'] as const).map((group) => ({
      name: group === 'server' ? 'server' : 'PostgreSQL',
      points: points(runs, growing, of, (run) => Math.max(0, value(run, group))),
    }));
  return {
    'agents-processor': {
      title: 'Processor of idle agents',
      x: 'connected agents',
      y: '% of a core',
      series: series('agents', 'processor', (run, group) => cores(run, group) * 100),
    },
    'agents-memory': {
      title: 'Memory of idle agents',
      x: 'connected agents',
      y: 'MB (PSS)',
      series: series('agents', 'memory', megabytes),
    },
    watchers: {
      title: 'Memory of people who watch a workspace, with 1,000 agents',
      x: 'open streams',
      y: 'MB (PSS)',
      series: series('watchers', 'memory', megabytes),
    },
    builds: {
      title: 'Processor time of simulated builds',
      x: 'builds at the same time',
      y: 'seconds',
      series: series('builds', 'processor', (run, group) => ofAllBuilds(run, group) / 1_000),
    },
  };
}

/** The tables that a soak made largest. */
const LARGEST = 8;

function soakText(run: SoakResult | undefined): string {
  if (!run) return NOT_MEASURED;
  const { users, minutes, builds, requests, faults, errors, errorsOfFaults, lost, moments, tables, checks } = run;
  const [first, last] = [moments.find(({ minute }) => minute >= SETTLED_MINUTES)!, moments.at(-1)!];
  const missed = checks.filter(({ met }) => !met);
  const verdict = missed.map(({ what, value, reach }) => `**${what}: ${value}, not ${reach}**`);
  const intro = [
    `Measured ${run.at.slice(0, 10)}: ${fixed(users)} people for ${fixed(minutes)} minutes, with ${fixed(builds)} builds, ${fixed(requests)} requests for lists, and ${faults.length} faults.`,
    `${fixed(errors)} requests failed without a fault, and ${fixed(errorsOfFaults)} within half a minute of one. ${fixed(lost)} connections of agents ended, and all agents came back.`,
    `Verdict: ${verdict.length === 0 ? 'good' : verdict.join(', ')}.`,
  ].join('\n');
  const grown = (what: string, of: (moment: Moment) => number, unit = '') => [
    what,
    `${fixed(of(first))}${unit}`,
    `${fixed(of(last))}${unit}`,
    percent(growthPerHour(moments, of)),
  ];
  const growth = markdown(
    ['', `after ${first.minute} minutes`, 'at the end', 'growth in an hour, by the line through all minutes'],
    [
      grown('memory of the server', ({ serverMegabytes }) => serverMegabytes, ' MB'),
      grown('memory of PostgreSQL', ({ postgresMegabytes }) => postgresMegabytes, ' MB'),
      grown('descriptors of the server', ({ descriptors }) => descriptors),
      grown('threads of the server', ({ threads }) => threads),
    ],
  );
  const total = ({ bytes, indexBytes }: TableSize) => bytes + indexBytes;
  const largest = Object.entries(tables)
    .toSorted(([, a], [, b]) => total(b.after) - total(a.after))
    .slice(0, LARGEST)
    .map(([name, { before, after }]) => [
      `\`${name}\``,
      ...[before, after].flatMap((size) => [
        fixed(size.rows),
        `${fixed(size.bytes / 1e6, 1)}; ${fixed(size.indexBytes / 1e6, 1)} MB`,
      ]),
      `${fixed(after.dead)}`,
    ]);
  const head = ['table', 'rows', 'table; indexes', 'rows at the end', 'table; indexes at the end', 'dead rows'];
  return [intro, growth, markdown(head, largest)].join('\n\n');
}

const soakChart = ({ moments }: SoakResult): Chart => {
  const series = (name: string, of: (moment: Moment) => number) => ({
    name,
    points: moments.map((moment) => ({ x: moment.minute, y: of(moment) })),
  });
  return {
    ...{ title: 'Memory in a long run with faults', x: 'minutes', y: 'MB (PSS)' },
    series: [
      series('server', ({ serverMegabytes }) => serverMegabytes),
      series('PostgreSQL', ({ postgresMegabytes }) => postgresMegabytes),
    ],
  };
};

/** Replaces the text between the comments `<!-- name -->` and `<!-- end of name -->`. */
export function fillIn(page: string, name: string, text: string): string {
  const [from, to] = [`<!-- ${name} -->\n`, `<!-- end of ${name} -->`];
  const [begin, end] = [page.indexOf(from), page.indexOf(to)];
  if (begin < 0 || end < begin) throw new Error(`The page has no place for ${JSON.stringify(name)}.`);
  return `${page.slice(0, begin + from.length)}${text}\n${page.slice(end)}`;
}

/** The machine of most runs, and the others with the names of their runs. */
export function machinesText(runs: readonly { tier: string; machine: string }[]): string {
  const [[usual] = [''], ...others] = byMachine(runs);
  const names = (tiers: readonly { tier: string }[]) => tiers.map(({ tier }) => tier).join(', ');
  return [usual, ...others.map(([machine, tiers]) => `on ${machine} (${names(tiers)})`)].join(', and ');
}

/** `file`: the results of tiers. Those of a soak are next to it. */
export function report(file: string): void {
  const runs = readResults(file);
  const soak = readSoak(join(dirname(file), 'soak.json'));
  if (runs.length === 0) throw new Error(`${file} has no runs.`);
  const path = join(docs, 'scale.md');
  const curves = curvesOf(runs);
  const days = [...new Set(runs.map(({ at }) => at.slice(0, 10)))].sort().join(', ');
  const requests = [...new Set(runs.map(({ ownerRequests }) => ownerRequests))].join(' or ');
  const missing = Object.keys(TIERS).filter((name) => !runs.some(({ tier }) => tier === name));
  const from = [
    `Measured ${days} on ${machinesText(runs)}${runs.some(({ executable }) => !executable) ? ', from the sources' : ''}.`,
    `In every run an owner sends ${requests} requests a second, mostly lists, whose times are those of the API. Their cost is in all figures.`,
    ...(missing.length > 0 ? [`No results yet: ${missing.join(', ')}.`] : []),
  ].join('\n');
  const texts: Record<string, string> = {
    machine: from,
    runs: runsTable(runs),
    builds: buildsTable(runs),
    people: peopleTable(runs),
    costs: costsTable(curves),
    paper: paperTable(curves),
    soak: soakText(soak),
  };
  let page = readFileSync(path, 'utf8');
  for (const [name, text] of Object.entries(texts)) page = fillIn(page, name, text);
  writeFileSync(path, page);
  const charts = { ...chartsOf(runs), ...(soak ? { soak: soakChart(soak) } : {}) };
  for (const [name, chart] of Object.entries(charts)) {
    if (chart.series.some(({ points: found }) => found.length === 0)) continue;
    for (const theme of ['light', 'dark'] as const)
      writeFileSync(join(docs, 'images', `scale-${name}-${theme}.svg`), drawChart(chart, theme));
  }
  console.error(`${path} and its pictures show ${runs.length} runs.`);
}
