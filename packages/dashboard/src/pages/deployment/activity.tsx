import { useQuery } from '@tanstack/react-query';
import { Activity as ActivityIcon } from 'lucide-react';
import { apiQuery } from '../../api/query.ts';
import { DayChart } from '../../ui/day-chart.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView, Skeleton } from '../../ui/states.tsx';

/** Days begin at midnight here. The server takes whole hours east of UTC. */
const query = { tz_offset: Math.trunc(-new Date().getTimezoneOffset() / 60) };
const dailyUsers = apiQuery('GET /insights/daus', [], { query });
const statusCounts = apiQuery('GET /insights/user-status-counts', [{ kind: 'user' }], { query });

const STATUSES = [
  { status: 'active', name: 'Active', tone: 'good' },
  { status: 'dormant', name: 'Dormant', tone: 'busy' },
  { status: 'suspended', name: 'Suspended', tone: 'bad' },
] as const;

const CHART = 'h-52 w-full';

/** How many people used workspaces each day, and how many accounts there are. */
export default function Activity() {
  const daus = useQuery(dailyUsers);
  const counts = useQuery(statusCounts);
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
    </div>
  );
}
