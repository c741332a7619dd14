// The options of `npm run bench scale`, and its tiers.
import { parseArgs } from 'node:util';

/** How many of each. */
export interface Counts {
  /** Scripted agents, each in a workspace. */
  agents: number;
  /** How many of them connect at the same time. */
  connecting: number;
  /** The time between two reports of metadata, in seconds. */
  metadataSeconds: number;
  /** Scripted agents also write logs and change the health of an app. */
  live: boolean;
  /** People who read lists, one request every ten seconds each. */
  lists: number;
  dashboards: number;
  /** People who follow a workspace each. */
  watchers: number;
  forms: number;
  terminals: number;
  ssh: number;
  forwards: number;
  /** In a minute. */
  signIns: number;
  /** Builds that are posted at the same time, how long each takes, and the scripted daemons that take them. */
  builds: number;
  buildSeconds: number;
  daemons: number;
  /** Builds that Terraform runs meanwhile, one after another. */
  realBuilds: number;
}

/** What a tier is expected to reach on this machine. */
export interface Reach {
  /** Average processors of the server. */
  serverCores?: number;
  serverMegabytes?: number;
  /** p99 of other requests while builds run, compared with the quiet part of the same run. */
  slower?: number;
  apiP99Ms?: number;
}

export interface Tier {
  counts: Counts;
  reach: Reach;
}

export interface ScaleOptions {
  tiers: { name: string; tier: Tier }[];
  minutes: number;
  /** A long run with faults, of a company with so many people, instead of tiers. */
  soak: number | undefined;
  /** The results file to add the runs to. */
  results: string | undefined;
  /** Only makes docs/scale.md and its pictures from the results file. */
  report: boolean;
  /** Runs the server from the sources instead of the built executable. */
  sources: boolean;
}

const MINUTES = 10;
const SOAK_MINUTES = 120;
const SOAK_USERS = 1_000;
/** All at the same time would wait for each other, time out and try again: see docs/scale.md. */
const CONNECTING = 500;

const NOBODY: Counts = {
  agents: 0,
  connecting: CONNECTING,
  metadataSeconds: 60,
  live: false,
  lists: 0,
  dashboards: 0,
  watchers: 0,
  forms: 0,
  terminals: 0,
  ssh: 0,
  forwards: 0,
  signIns: 0,
  builds: 0,
  buildSeconds: 60,
  daemons: 0,
  realBuilds: 0,
};

/** A company with this many people, each with a running workspace. A tenth of them work with the server at a time. */
export function company(users: number): Counts {
  const part = (share: number, max = Number.POSITIVE_INFINITY) => Math.min(max, Math.max(1, Math.round(users * share)));
  return {
    agents: users,
    connecting: CONNECTING,
    metadataSeconds: 10,
    live: true,
    lists: part(0.1),
    dashboards: part(1 / 30, 100),
    watchers: part(0.1, 1_000),
    forms: part(0.01),
    terminals: part(0.01, 50),
    ssh: part(0.01, 50),
    forwards: part(0.005, 50),
    signIns: part(0.1, 100),
    builds: part(0.06),
    buildSeconds: 60,
    daemons: part(0.02),
    realBuilds: 3,
  };
}

const agentsOnly = (agents: number, reach: Reach = {}): Tier => ({ counts: { ...NOBODY, agents }, reach });
const watchersOnly = (watchers: number): Tier => ({ counts: { ...NOBODY, agents: 1_000, watchers }, reach: {} });
const buildsOnly = (builds: number): Tier => ({
  counts: { ...NOBODY, agents: 100, builds, daemons: Math.ceil(builds / 3) },
  reach: { slower: 2 },
});

/** Each is one run. Their order is that of the table. */
export const TIERS: Record<string, Tier> = {
  'agents-1000': agentsOnly(1_000),
  'agents-2000': agentsOnly(2_000),
  'agents-5000': agentsOnly(5_000),
  'agents-10000': agentsOnly(10_000, { serverCores: 0.25, serverMegabytes: 1_000 }),
  'metadata-3000': {
    counts: { ...NOBODY, agents: 3_000, metadataSeconds: 10, dashboards: 100 },
    reach: { serverCores: 1 },
  },
  'watchers-250': watchersOnly(250),
  'watchers-500': watchersOnly(500),
  'watchers-1000': watchersOnly(1_000),
  'builds-60': buildsOnly(60),
  'builds-120': buildsOnly(120),
  'builds-180': buildsOnly(180),
  'builds-600': buildsOnly(600),
  'people-1000': { counts: company(1_000), reach: { slower: 2 } },
  'people-2000': { counts: company(2_000), reach: { slower: 2 } },
  'people-3000': { counts: company(3_000), reach: { slower: 2 } },
  'people-10000': { counts: company(10_000), reach: { slower: 2 } },
};

/** Options that change one number. */
const NUMBERS = {
  agents: 'agents',
  connecting: 'connecting',
  'metadata-seconds': 'metadataSeconds',
  lists: 'lists',
  dashboards: 'dashboards',
  watchers: 'watchers',
  forms: 'forms',
  terminals: 'terminals',
  ssh: 'ssh',
  forwards: 'forwards',
  'sign-ins': 'signIns',
  builds: 'builds',
  'build-seconds': 'buildSeconds',
  daemons: 'daemons',
  'real-builds': 'realBuilds',
} as const satisfies Record<string, keyof Counts>;

export const USAGE = `npm run bench scale -- [--tier NAME…|--users N|--soak] [--minutes N] [--results FILE] [--sources] [--report]
  --tier NAME      ${Object.keys(TIERS).join(', ')}, or all. May be given several times
  --users N        a company with this many people, instead of a tier
  --soak           a long run of a company with faults (--users, default 1000; --minutes, default 120)
  --minutes N      the length of each run without its start. Default: 10
  --results FILE   adds the runs to this file
  --report         only makes docs/scale.md and its pictures from the results file
  --sources        runs the server from the sources instead of the built executable
  ${Object.keys(NUMBERS)
    .map((name) => `--${name} N`)
    .join(', ')}: change one number of the run`;

function wholeNumber(name: string, text: string): number {
  if (!/^\d{1,7}$/.test(text)) throw new Error(`--${name} ${JSON.stringify(text)}: use a whole number.`);
  return Number(text);
}

/** @throws Error with a sentence for the person */
export function parseOptions(args: readonly string[]): ScaleOptions {
  const numbers = Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, { type: 'string' as const }]));
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...numbers,
      tier: { type: 'string', multiple: true },
      users: { type: 'string' },
      minutes: { type: 'string' },
      results: { type: 'string' },
      report: { type: 'boolean' },
      soak: { type: 'boolean' },
      sources: { type: 'boolean' },
    },
  });
  const given = values as Record<string, string | undefined>;
  const changes = Object.entries(NUMBERS).flatMap(([name, key]) =>
    given[name] === undefined ? [] : [[key, wholeNumber(name, given[name])] as const],
  );
  const minutes = Number(values.minutes ?? (values.soak ? SOAK_MINUTES : MINUTES));
  if (!(minutes >= 0.1 && minutes <= 600))
    throw new Error(`--minutes ${values.minutes}: use a number from 0.1 to 600.`);
  const named = values.tier?.includes('all') ? Object.keys(TIERS) : (values.tier ?? []);
  const chosen = named.map((name) => {
    const tier = TIERS[name];
    if (!tier) throw new Error(`--tier ${JSON.stringify(name)}: use ${Object.keys(TIERS).join(', ')}, or all.`);
    return { name, tier };
  });
  if (values.soak && (chosen.length > 0 || changes.length > 0))
    throw new Error('--soak takes --users and --minutes, and no tier or number.');
  const users = values.users === undefined ? undefined : wholeNumber('users', values.users);
  if (users !== undefined && !values.soak) {
    if (chosen.length > 0) throw new Error('--users and --tier exclude each other.');
    chosen.push({ name: `users-${users}`, tier: { counts: company(users), reach: { slower: 2 } } });
  }
  if (chosen.length === 0 && !values.soak) chosen.push({ name: 'custom', tier: { counts: NOBODY, reach: {} } });
  const tiers = chosen.map(({ name, tier }) => ({
    // a changed tier must not replace the tier's own result
    name: changes.length > 0 ? `${name} with ${changes.map(([key, value]) => `${key} ${value}`).join(', ')}` : name,
    tier: { ...tier, counts: checked({ ...tier.counts, ...Object.fromEntries(changes) }) },
  }));
  return {
    ...{ tiers, minutes, results: values.results, report: values.report ?? false, sources: values.sources ?? false },
    soak: values.soak ? (users ?? SOAK_USERS) : undefined,
  };
}

function checked(counts: Counts): Counts {
  if (counts.builds > 0 && counts.daemons === 0) throw new Error('--builds requires --daemons.');
  if (counts.metadataSeconds === 0) throw new Error('--metadata-seconds must be greater than 0.');
  if (counts.connecting === 0) throw new Error('--connecting must be greater than 0.');
  const own = Math.max(counts.watchers, counts.dashboards);
  if (own > counts.agents)
    throw new Error(`${own} people watch a workspace each, but there are ${counts.agents} agents.`);
  return counts;
}
