import type { TemplateAppUsage, TemplateInsightsResponse, TemplateParameterUsage } from '@ropewalk/contract';
import {
  type AppUsage,
  appUsage,
  builtinUsage,
  type InsightsScope,
  type KindUsage,
  type ParameterUsage,
  parameterUsage,
  usersByInterval,
} from '../../db/queries/insights.ts';
import type { Ctx } from '../context/context.ts';
import { badQuery } from '../lists/search.ts';
import { time } from '../values/time.ts';
import { DAY_MS, insightsScope, type PeriodQuery } from './period.ts';

/** The maximum number of values of one parameter. The rarest are left out. */
const MAX_VALUES = 100;

/** Upstream's names for the kinds of sessions. */
const BUILTIN = [
  { kind: 'vscode', slug: 'vscode', display_name: 'Visual Studio Code', icon: '/icon/code.svg' },
  { kind: 'jetbrains', slug: 'jetbrains', display_name: 'JetBrains', icon: '/icon/intellij.svg' },
  { kind: 'reconnecting_pty', slug: 'reconnecting-pty', display_name: 'Web Terminal', icon: '/icon/terminal.svg' },
  { kind: 'ssh', slug: 'ssh', display_name: 'SSH', icon: '/icon/terminal.svg' },
] as const;

export interface TemplatesQuery extends PeriodQuery {
  interval?: 'day' | 'week';
  sections?: string;
}

/** Who used the workspaces of templates, how, and with which parameters: in all, and by day or week. */
export async function templateInsights(ctx: Ctx, query: TemplatesQuery): Promise<TemplateInsightsResponse> {
  const scope = await insightsScope(ctx, query);
  const sections = query.sections ? query.sections.split(',') : ['report', 'interval_reports'];
  const unknown = sections.find((name) => name !== 'report' && name !== 'interval_reports');
  if (unknown !== undefined) throw badQuery('sections', `${JSON.stringify(unknown)} is not a section`);
  const answer: TemplateInsightsResponse = {};
  if (sections.includes('report')) answer.report = await wholeReport(ctx, scope);
  if (sections.includes('interval_reports') && query.interval) {
    answer.interval_reports = await intervalReports(ctx, scope, query.interval);
  }
  return answer;
}

async function wholeReport({ lists: sql }: Ctx, scope: InsightsScope): Promise<TemplateInsightsResponse['report']> {
  const [[whole], builtin, apps, parameters] = await Promise.all([
    usersByInterval(sql, scope, [scope]),
    builtinUsage(sql, scope),
    appUsage(sql, scope),
    parameterUsage(sql, scope, MAX_VALUES),
  ]);
  return {
    start_time: time(scope.from),
    end_time: time(scope.to),
    template_ids: whole!.template_ids,
    active_users: whole!.active_users,
    apps_usage: [...toBuiltin(builtin), ...apps.map(toApp)],
    parameters_usage: parameters.map(toParameter),
  };
}

function toBuiltin(found: readonly KindUsage[]): TemplateAppUsage[] {
  return BUILTIN.map(({ kind, ...shown }) => {
    const usage = found.find((each) => each.kind === kind);
    return {
      type: 'builtin',
      ...shown,
      seconds: usage?.seconds ?? 0,
      times_used: usage?.times_used ?? 0,
      template_ids: usage?.template_ids ?? [],
    };
  });
}

function toApp({ kind, display_name, icon, seconds, times_used, template_ids }: AppUsage): TemplateAppUsage {
  return {
    type: 'app',
    slug: kind,
    display_name: display_name || kind,
    icon: icon ?? '',
    seconds,
    times_used,
    template_ids,
  };
}

function toParameter({ options, ...usage }: ParameterUsage): TemplateParameterUsage {
  return { ...usage, ...(options.length > 0 ? { options } : {}) };
}

async function intervalReports(
  { lists: sql }: Ctx,
  scope: InsightsScope,
  interval: 'day' | 'week',
): Promise<TemplateInsightsResponse['interval_reports']> {
  const step = interval === 'day' ? DAY_MS : 7 * DAY_MS;
  const intervals: { from: Date; to: Date }[] = [];
  for (let at = scope.from.getTime(); at < scope.to.getTime(); at += step) {
    intervals.push({ from: new Date(at), to: new Date(Math.min(at + step, scope.to.getTime())) });
  }
  const found = await usersByInterval(sql, scope, intervals);
  return intervals.map(({ from, to }, i) => ({
    start_time: time(from),
    end_time: time(to),
    interval,
    ...found[i]!,
  }));
}
