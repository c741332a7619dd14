import { useQuery } from '@tanstack/react-query';
import { Activity as ActivityIcon, Timer } from 'lucide-react';
import { apiQuery } from '../../api/query.ts';
import { DayChart } from '../../ui/day-chart.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView, Skeleton } from '../../ui/states.tsx';
import { formatDuration } from '../../util/time.ts';

/** Days begin at midnight here. The server takes whole hours east of UTC. */
const query = { tz_offset: Math.trunc(-new Date().getTimezoneOffset() / 60) };
const dailyUsers = apiQuery('GET /insights/daus', [], { query });
const startTimes = apiQuery('GET /insights/build-times', [], { query });
const statusCounts = apiQuery('GET /insights/user-status-counts', [{ kind: 'user' }], { query });

const STATUSES = [
  { status: 'active', name: 'Active', tone: 'good' },
  { status: 'dormant', name: 'Dormant', tone: 'busy' },
  { status: 'suspended', name: 'Suspended', tone: 'bad' },
] as const;

const DAY_MS = 86_400_000;
const CHART = 'h-52 w-full';

/** How many people used workspaces each day, how many accounts there are, and how long starts took. */
export default function Activity() {
  const daus = useQuery(dailyUsers);
  const counts = useQuery(statusCounts);
  const times = useQuery(startTimes);
  return (
    <div className="grid gap-5 lg:grid-cols-2">
      <Section title="Daily active users" description="People who used a workspace on that day">
        <QueryView query={daus} loading={<Skeleton className={CHART} />}>
          {({ entries }) =>
            entries.some(({ amount }) => amount > 0) ? (
              <DayChart
                label="Daily active users"
                className={CHART}
                series={[{ name: 'Active users', tone: 'accent' }]}
                days={entries.map(({ date, amount }) => ({ date, values: [amount] }))}
              />
            ) : (
              <EmptyState icon={ActivityIcon} title="No activity yet">
                It appears here once people connect to workspaces.
              </EmptyState>
            )
          }
        </QueryView>
      </Section>
      <Section title="Users" description="Accounts by their status">
        <QueryView query={counts} loading={<Skeleton className={CHART} />}>
          {({ status_counts: counted }) => {
            const used = STATUSES.filter(({ status }) => counted[status]?.some(({ count }) => count > 0));
            return (
              <DayChart
                label="Users by status"
                className={CHART}
                stacked
                series={used}
                days={(counted['active'] ?? []).map(({ date }, at) => ({
                  date,
                  values: used.map(({ status }) => counted[status]?.[at]?.count ?? 0),
                }))}
              />
            );
          }}
        </QueryView>
      </Section>
      <Section
        title="Build times"
        description="How long starts of workspaces took, without the time in the queue"
        className="lg:col-span-2"
      >
        <QueryView query={times} loading={<Skeleton className={CHART} />}>
          {({ entries }) =>
            entries.length > 0 ? (
              <DayChart
                label="Build times"
                className={CHART}
                series={[
                  { name: 'Median', tone: 'accent' },
                  { name: '95th percentile', tone: 'warn' },
                ]}
                format={formatDuration}
                days={everyDay(entries).map(({ date, times: day }) => ({ date, values: [day?.p50, day?.p95] }))}
              />
            ) : (
              <EmptyState icon={Timer} title="No builds yet">
                Their times appear here once workspaces have started.
              </EmptyState>
            )
          }
        </QueryView>
      </Section>
    </div>
  );
}

/** All days from the first entry to the last one, so that days without builds keep their place. */
function everyDay<E extends { date: string }>(entries: readonly E[]): { date: string; times: E | undefined }[] {
  const byDate = new Map(entries.map((entry) => [entry.date, entry]));
  const first = Date.parse(entries[0]!.date);
  const last = Date.parse(entries.at(-1)!.date);
  return Array.from({ length: (last - first) / DAY_MS + 1 }, (_, at) => {
    const date = new Date(first + at * DAY_MS).toISOString().slice(0, 10);
    return { date, times: byDate.get(date) };
  });
}
