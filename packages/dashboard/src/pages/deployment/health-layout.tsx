import { useQuery, useSuspenseQuery } from '@tanstack/react-query';
import { Outlet } from '@tanstack/react-router';
import { sitePermissions } from '../../api/permissions.ts';
import { NoPermission } from '../../layouts/problems.tsx';
import { SidebarLayout } from '../../layouts/sidebar.tsx';
import { cx } from '../../ui/classes.ts';
import { paths } from '../../util/paths.ts';
import { HEALTH_SECTIONS, SEVERITIES } from './health-sections.ts';
import { healthQuery } from './queries.ts';

const DOT = { good: 'bg-good', warn: 'bg-warn', bad: 'bg-bad' } as const;

export default function HealthLayout() {
  const may = useSuspenseQuery(sitePermissions).data;
  if (!may.readHealth) return <NoPermission />;
  return <HealthNavigation />;
}

function HealthNavigation() {
  const report = useQuery(healthQuery).data;
  return (
    <SidebarLayout
      label="Health"
      groups={[
        {
          entries: HEALTH_SECTIONS.map(({ path, name, key }) => {
            const severity = report && SEVERITIES[report[key].severity];
            return {
              to: paths.health(path),
              name: (
                <>
                  <span
                    aria-hidden="true"
                    className={cx(
                      'size-2 shrink-0 rounded-full',
                      severity ? DOT[severity.tone as keyof typeof DOT] : 'bg-line-strong',
                    )}
                  />
                  {name}
                  {severity && severity.tone !== 'good' && <span className="sr-only">: {severity.name}</span>}
                </>
              ),
            };
          }),
        },
      ]}
    >
      <Outlet />
    </SidebarLayout>
  );
}
