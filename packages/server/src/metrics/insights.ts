import type { Clock } from '@ropewalk/kit';
import { Gauge, type Registry } from 'prom-client';
import { readRecentUsage } from '../db/queries/insights-figures.ts';
import type { DatabaseGauges } from './gauges.ts';

const WINDOW_MS = 5 * 60_000;
/** The maximum number of templates, and of values of parameters, with their own series. */
const MAX_SERIES = 1_000;
const RECENT = 'In the last 5 minutes. For the whole deployment: each server reports the same value.';
const SESSIONS = [
  ['vscode', 'Visual Studio Code'],
  ['jetbrains', 'JetBrains'],
  ['reconnecting_pty', 'Web Terminal'],
  ['ssh', 'SSH'],
] as const;

/** Gauges of the use of templates. They are read again after 5 minutes, whatever the number of scrapes. */
export function createInsightsGauges(registry: Registry, clock: Clock): DatabaseGauges {
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Gauge({ name: `coderd_insights_${name}`, help: `${help} ${RECENT}`, labelNames, registers: [registry] });
  const users = gauge('templates_active_users', 'The number of people who use workspaces of a template.', [
    'organization_name',
    'template_name',
  ]);
  const seconds = gauge('applications_usage_seconds', 'The time that people use sessions and apps, in seconds.', [
    'application_name',
    'organization_name',
    'slug',
    'template_name',
  ]);
  const parameters = gauge('parameters', 'The number of started workspaces by their values of parameters.', [
    'organization_name',
    'parameter_name',
    'parameter_type',
    'parameter_value',
    'template_name',
  ]);
  let readAt: number | undefined;
  const forget = () => {
    readAt = undefined;
    for (const one of [users, seconds, parameters]) one.reset();
  };
  return {
    forget,
    async read(sql) {
      if (readAt !== undefined && clock.monotonic() - readAt < WINDOW_MS) return;
      const since = new Date(clock.now().getTime() - WINDOW_MS);
      const recent = await readRecentUsage(sql, since, MAX_SERIES);
      forget();
      readAt = clock.monotonic();
      for (const { active_users, sessions, apps, ...template } of recent.usage) {
        users.set(template, active_users);
        for (const [kind, application_name] of SESSIONS) {
          seconds.set({ ...template, application_name, slug: '' }, sessions[kind]);
        }
        for (const { slug, display_name, seconds: used } of apps) {
          seconds.set({ ...template, application_name: display_name, slug }, used);
        }
      }
      for (const { count, ...labels } of recent.parameters) parameters.set(labels, count);
    },
  };
}
