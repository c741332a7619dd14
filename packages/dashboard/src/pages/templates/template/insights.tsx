import type { Template, TemplateInsightsReport, TemplateParameterUsage } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { ChartNoAxesColumn } from 'lucide-react';
import type { ReactNode } from 'react';
import { apiQuery } from '../../../api/query.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { DayChart } from '../../../ui/day-chart.tsx';
import { NativeSelect } from '../../../ui/field.tsx';
import { Section, useTitle } from '../../../ui/page.tsx';
import { EmptyState, QueryView, Skeleton, SkeletonLines } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';
import { useSearchParams } from '../../../util/route.ts';
import { formatDuration } from '../../../util/time.ts';
import { nameOf, useTemplate } from '../data.ts';
import { valueUsage } from './parameter-usage.ts';

const PERIODS = ['7', '30', '90'] as const;

/** The last days until the end of today, in the person's zone. */
function period(days: number): { start_time: string; end_time: string } {
  const midnight = (ahead: number) => {
    const day = new Date();
    day.setHours(0, 0, 0, 0);
    day.setDate(day.getDate() + ahead);
    return day.toISOString();
  };
  return { start_time: midnight(1 - days), end_time: midnight(1) };
}

/** Who uses the workspaces of a template, their apps, and the parameters that people choose. */
export default function TemplateInsights() {
  const template = useTemplate();
  const [search, setSearch] = useSearchParams();
  const days = PERIODS.find((each) => each === search['days']) ?? '30';
  useTitle('Insights', nameOf(template));
  return (
    <>
      <div className="flex items-center gap-3">
        <h2 className="flex-1 font-semibold text-lg">Insights</h2>
        <div className="w-40">
          <NativeSelect
            aria-label="Period"
            value={days}
            onChange={(event) => setSearch({ days: event.target.value === '30' ? undefined : event.target.value })}
          >
            {PERIODS.map((each) => (
              <option key={each} value={each}>
                Last {each} days
              </option>
            ))}
          </NativeSelect>
        </div>
      </div>
      <Charts template={template} days={Number(days)} />
    </>
  );
}

function Charts({ template, days }: { template: Template; days: number }) {
  const query = { ...period(days), template_ids: template.id };
  const usage = useQuery({
    ...apiQuery('GET /insights/templates', [], { query: { ...query, interval: 'day' } }),
    placeholderData: keepPreviousData,
  });
  return (
    <QueryView
      query={usage}
      loading={
        <>
          <Skeleton className="h-72" />
          <Skeleton className="h-48" />
        </>
      }
    >
      {({ report, interval_reports: intervals = [] }) => (
        <>
          {report && report.active_users > 0 ? (
            <>
              <Section
                title="Active people by day"
                description={report.active_users === 1 ? '1 person in all' : `${report.active_users} people in all`}
              >
                <DayChart
                  className="h-56"
                  label="Active people by day"
                  series={[{ name: 'Active people', tone: 'accent' }]}
                  days={intervals.map(({ start_time, active_users }) => ({
                    date: start_time,
                    values: [active_users],
                  }))}
                />
              </Section>
              <div className="grid items-start gap-5 lg:grid-cols-2">
                <Apps report={report} />
                <People query={query} />
              </div>
            </>
          ) : (
            <Section>
              <EmptyState icon={ChartNoAxesColumn} title="Nobody used this template in this period">
                Figures appear once people connect to their workspaces.
              </EmptyState>
            </Section>
          )}
          <Parameters parameters={report?.parameters_usage ?? []} />
        </>
      )}
    </QueryView>
  );
}

/** Names with amounts, as bars that share a scale. `full` is the amount of a whole bar. Default: the largest one. */
function Bars({
  rows,
  full,
}: {
  rows: readonly { key: string; name: ReactNode; amount: number; text: string }[];
  full?: number;
}) {
  const most = full ?? Math.max(1, ...rows.map(({ amount }) => amount));
  return (
    <ul className="flex flex-col gap-3">
      {rows.map(({ key, name, amount, text }) => (
        <li key={key} className="flex flex-col gap-1">
          <div className="flex items-center justify-between gap-3">
            <span className="flex min-w-0 items-center gap-2 truncate">{name}</span>
            <span className="shrink-0 text-muted text-sm tabular-nums">{text}</span>
          </div>
          <div aria-hidden="true" className="h-1.5 rounded-full bg-sunken">
            <div className="h-full rounded-full bg-accent" style={{ width: `${(amount / most) * 100}%` }} />
          </div>
        </li>
      ))}
    </ul>
  );
}

function Apps({ report }: { report: TemplateInsightsReport }) {
  const used = report.apps_usage.filter(({ seconds }) => seconds > 0).sort((a, b) => b.seconds - a.seconds);
  return (
    <Section title="Time by app">
      {used.length === 0 ? (
        <p className="text-muted">No app was used.</p>
      ) : (
        <Bars
          rows={used.map(({ slug, type, display_name, icon, seconds }) => ({
            key: `${type} ${slug}`,
            name: (
              <>
                <Avatar name={display_name || slug} src={icon} size={18} square />
                <span className="truncate">{display_name || slug}</span>
              </>
            ),
            amount: seconds,
            text: formatDuration(seconds * 1_000),
          }))}
        />
      )}
    </Section>
  );
}

function People({ query }: { query: { start_time: string; end_time: string; template_ids: string } }) {
  const activity = useQuery(apiQuery('GET /insights/user-activity', [], { query }));
  const latency = useQuery(apiQuery('GET /insights/user-latency', [], { query })).data?.report.users ?? [];
  return (
    <Section title="People" flush>
      <QueryView
        query={activity}
        loading={
          <div className="p-4">
            <SkeletonLines lines={3} />
          </div>
        }
      >
        {({ report }) => (
          <Table
            label="People"
            rows={report.users.toSorted((a, b) => b.seconds - a.seconds)}
            rowKey={({ user_id }) => user_id}
            columns={[
              {
                name: 'Name',
                cell: ({ username, avatar_url }) => (
                  <span className="flex min-w-0 items-center gap-2">
                    <Avatar name={username} src={avatar_url} size={22} />
                    <span className="truncate">{username}</span>
                  </span>
                ),
              },
              { name: 'Active', numeric: true, width: '6rem', cell: ({ seconds }) => formatDuration(seconds * 1_000) },
              {
                name: 'Latency',
                numeric: true,
                width: '6rem',
                cell: ({ user_id }) => {
                  const found = latency.find((each) => each.user_id === user_id)?.latency_ms;
                  return found ? (
                    <span title={`95% of the measurements are below ${Math.round(found.p95)} ms.`}>
                      {Math.round(found.p50)} ms
                    </span>
                  ) : (
                    <span className="text-faint">Unknown</span>
                  );
                },
              },
            ]}
          />
        )}
      </QueryView>
    </Section>
  );
}

function Parameters({ parameters }: { parameters: readonly TemplateParameterUsage[] }) {
  if (parameters.length === 0) return null;
  return (
    <Section
      title="Parameters"
      description="The number of workspaces with each value, of those started in this period."
    >
      <div className="grid gap-x-8 gap-y-6 lg:grid-cols-2">
        {parameters.map((parameter) => (
          <section
            key={`${parameter.name} ${parameter.type} ${parameter.display_name}`}
            aria-label={parameter.display_name || parameter.name}
            className="flex min-w-0 flex-col gap-3"
          >
            <h3 className="break-words font-medium">{parameter.display_name || parameter.name}</h3>
            <Bars
              full={100}
              rows={valueUsage(parameter).map(({ name, count, percent }) => ({
                key: name ?? '\0rest',
                name:
                  name === undefined || name === '' ? (
                    <span className="text-muted">{name === '' ? 'Empty' : 'Other values'}</span>
                  ) : (
                    <span title={name} className="truncate">
                      {name}
                    </span>
                  ),
                amount: percent,
                text: `${count.toLocaleString()} · ${percent}%`,
              }))}
            />
          </section>
        ))}
      </div>
    </Section>
  );
}
