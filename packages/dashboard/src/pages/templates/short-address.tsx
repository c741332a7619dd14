import { useQuery } from '@tanstack/react-query';
import { useMatch } from '@tanstack/react-router';
import { FileQuestion } from 'lucide-react';
import { useEffect, useRef } from 'react';
import { organizationsQuery } from '../../api/me.ts';
import { apiQuery } from '../../api/query.ts';
import { LinkButton } from '../../ui/button.tsx';
import { EmptyState, ErrorView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useRouteParams } from '../../util/route.ts';

/**
 * `/templates/NAME…` without an organization: leads to the same page of the only template with this name that the person
 * may see. Among several, the default organization's wins.
 */
export default function ShortAddress() {
  const { template: name } = useRouteParams<'template'>();
  // the address of this page, also while the next one is loading
  const { pathname, search } = useMatch({ strict: false });
  const organizations = useQuery(organizationsQuery);
  const found = useQuery(
    apiQuery('GET /templates', [{ kind: 'template' }], { query: { q: `exact_name:${JSON.stringify(name)}` } }),
  );
  const home = organizations.data?.find(({ is_default }) => is_default)?.id;
  const template = found.data?.find(({ organization_id }) => organization_id === home) ?? found.data?.[0];
  const rest = pathname.split('/').slice(3).join('/');
  const target =
    template &&
    organizations.data &&
    `${paths.template(template)}${rest ? `/${rest}` : ''}?${new URLSearchParams(search)}`;
  const go = useRef(useGo());
  useEffect(() => {
    if (target) go.current(target, { replace: true });
  }, [target]);
  const error = found.error ?? organizations.error;
  if (error) return <ErrorView error={error} retry={() => void found.refetch()} isPage />;
  if (found.data && organizations.data && !template) {
    return (
      <EmptyState
        isPage
        icon={FileQuestion}
        title={`Template "${name}" not found`}
        action={<LinkButton to={paths.templates()}>All templates</LinkButton>}
      >
        It may have been renamed or deleted, or you don't have access to it.
      </EmptyState>
    );
  }
  return (
    <div className="mx-auto w-full max-w-7xl px-6 py-8">
      <SkeletonLines lines={6} />
    </div>
  );
}
