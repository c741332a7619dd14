import { useSuspenseQuery } from '@tanstack/react-query';
import { Building2 } from 'lucide-react';
import { useEffect } from 'react';
import { organizationsQuery } from '../../api/me.ts';
import { EmptyState, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useGo } from '../../util/route.ts';

/** `/organizations` opens the first organization. */
export default function FirstOrganization() {
  const first = useSuspenseQuery(organizationsQuery).data[0]?.name;
  const go = useGo();
  useEffect(() => {
    if (first) go(paths.organization(first), { replace: true });
  }, [first, go]);
  if (first) return <SkeletonLines lines={6} />;
  return (
    <EmptyState isPage icon={Building2} title="You are in no organization">
      Ask an administrator to add you to one.
    </EmptyState>
  );
}
