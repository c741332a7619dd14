import { useQuery } from '@tanstack/react-query';
import { organizationsQuery, useMe } from '../../api/me.ts';
import { apiQuery } from '../../api/query.ts';
import { cx } from '../../ui/classes.ts';

const quotaQuery = (organization: string, user: string) =>
  apiQuery(
    'GET /organizations/{organization}/members/{user}/workspace-quota',
    [{ kind: 'workspace' }, { kind: 'group' }],
    { params: { organization, user } },
  );

/** What a person spends and may spend on workspaces of an organization. Nothing where the organization has no quotas. */
export function Budget({ organization, user, of }: { organization: string; user: string; of?: string | undefined }) {
  const quota = useQuery(quotaQuery(organization, user)).data;
  if (!quota || quota.budget < 0) return null;
  const { budget, credits_consumed: used } = quota;
  const share = used === 0 ? 0 : Math.min(used / budget, 1);
  return (
    <div
      className="flex items-center gap-2 text-muted text-sm"
      title="The daily cost of the workspaces, and the sum of the allowances of the groups"
    >
      <span>
        {of ? `Quota in the organization ${of}: ` : 'Quota: '}
        <b className="font-medium text-text tabular-nums">{used}</b> of <span className="tabular-nums">{budget}</span>{' '}
        credits a day
      </span>
      <span aria-hidden="true" className="h-1.5 w-16 shrink-0 overflow-hidden rounded-full bg-active max-sm:hidden">
        <span
          className={cx('block h-full rounded-full', used > budget ? 'bg-bad' : share > 0.85 ? 'bg-warn' : 'bg-accent')}
          style={{ width: `${share * 100}%` }}
        />
      </span>
    </div>
  );
}

/** One's own budgets, in each organization with quotas. */
export function OwnBudgets() {
  const { organization_ids: ids } = useMe();
  const organizations = useQuery(organizationsQuery).data ?? [];
  return ids.map((id) => {
    const organization = organizations.find((one) => one.id === id);
    return (
      <Budget
        key={id}
        organization={id}
        user="me"
        of={ids.length > 1 ? organization?.display_name || organization?.name : undefined}
      />
    );
  });
}
