// Whether a run was good, and which part had nothing left.
import type { Row } from '../measure.ts';
import type { Reach } from './options.ts';
import type { RunResult, WindowResult } from './results.ts';

export interface Check {
  what: string;
  value: string;
  reach: string;
  met: boolean;
}

/** A part that is used more than this has nothing left for a burst. */
const FULL = 0.85;

/** What of a window is needed to find the part that has nothing left. */
export type Load = Pick<WindowResult, 'mainThread' | 'busiestGenerator' | 'machine' | 'others'> & {
  processors: number;
};

/**
 * The part that has nothing left. A busy generator is named first, because its figures then say little about the server.
 * Without a full part: an empty text.
 */
export function saturatedPart({ mainThread, busiestGenerator, machine, others, processors }: Load): string {
  if (busiestGenerator >= FULL) return 'a process of the generator';
  if (mainThread >= FULL) return "the server's main thread";
  if (machine >= FULL * processors)
    return others > machine / 2 ? 'the processors, by other work' : 'the processors of the machine';
  return '';
}

type Judged = Pick<RunResult, 'errors' | 'reasons' | 'quiet' | 'alone' | 'builds' | 'counts'> & {
  lost: number;
  /** Agents and values that the server shows as connected and fresh. */
  connected: number;
  fresh: number;
  wantedFresh: number;
};

/** The checks of a run: nothing failed, nothing was lost, and the reach of its tier. */
export function judge(run: Judged, reach: Reach): Check[] {
  const { quiet, builds, counts } = run;
  const checks: Check[] = [
    atMost('errors', run.errors, 0, (value) => `${value}`),
    atMost('agents that lost their connection', run.lost, 0, (value) => `${value}`),
    {
      what: 'agents shown as connected',
      value: `${run.connected}`,
      reach: `${counts.agents}`,
      met: run.connected === counts.agents,
    },
    {
      what: 'fresh values of metadata',
      value: `${run.fresh}`,
      reach: `${run.wantedFresh}`,
      met: run.fresh >= run.wantedFresh,
    },
  ];
  const percent = (value: number) => `${(value * 100).toFixed(1)} % of a core`;
  const { peakMegabytes } = quiet.groups.server;
  const { cores } = (run.alone ?? quiet).groups.server;
  if (reach.serverCores !== undefined)
    checks.push(atMost('processor of the server', cores, reach.serverCores, percent));
  if (reach.serverMegabytes !== undefined)
    checks.push(
      atMost('memory of the server (PSS)', peakMegabytes, reach.serverMegabytes, (mb) => `${mb.toFixed(0)} MB`),
    );
  if (reach.apiP99Ms !== undefined)
    checks.push(atMost('p99 of the API', quiet.api.p99, reach.apiP99Ms, (ms) => `${ms.toFixed(1)} ms`));
  if (reach.slower !== undefined && builds) {
    const slower = builds.api.p99 / quiet.api.p99;
    const text = (times: number) => `${times.toFixed(2)}×`;
    checks.push(atMost('p99 of the API while builds run, compared with before', slower, reach.slower, text));
  }
  return checks;
}

export function atMost(what: string, value: number, reach: number, text: (value: number) => string): Check {
  // a figure that was not measured is not met
  return { what, value: text(value), reach: `≤ ${text(reach)}`, met: value <= reach };
}

/** The checks as rows of a bench. */
export const rowsOf = (tier: string, checks: readonly Check[]): Row[] =>
  checks.map(({ what, value, reach, met }) => ({
    what: `${tier}: ${what}`,
    ours: value,
    floor: '–',
    figure: value,
    reach,
    met,
  }));
