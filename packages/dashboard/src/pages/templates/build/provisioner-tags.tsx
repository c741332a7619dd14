import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useDeferredValue } from 'react';
import { apiQuery } from '../../../api/query.ts';
import { Status } from '../../../ui/badge.tsx';
import { Link } from '../../../ui/link.tsx';
import { type TagRow, TagsEditor } from '../../../ui/tags.tsx';
import { paths } from '../../../util/paths.ts';
import { tagsOf } from './tags.ts';

/** The tags that choose the daemons of an import, and which daemons those are now. */
export function ProvisionerTags({
  organization,
  rows,
  onChange,
}: {
  organization: { id: string; name: string };
  rows: readonly TagRow[];
  onChange: (rows: readonly TagRow[]) => void;
}) {
  return (
    <div className="flex flex-col gap-2">
      <div>
        <div className="font-medium text-sm">Provisioner tags</div>
        <div className="text-muted text-sm">
          Only provisioner daemons that have all of these tags import and build this template.
        </div>
      </div>
      <TagsEditor rows={rows} onChange={onChange} />
      <MatchingDaemons organization={organization} rows={rows} />
    </div>
  );
}

function MatchingDaemons({
  organization,
  rows,
}: {
  organization: { id: string; name: string };
  rows: readonly TagRow[];
}) {
  const tags = useDeferredValue(JSON.stringify({ scope: 'organization', owner: '', ...tagsOf(rows) }));
  const daemons = useQuery({
    ...apiQuery('GET /organizations/{organization}/provisionerdaemons', [{ kind: 'provisioner' }], {
      params: { organization: organization.id },
      query: { tags },
    }),
    placeholderData: keepPreviousData,
    enabled: organization.id !== '',
  });
  if (!daemons.data) return <div className="h-5.5" />;
  const online = daemons.data.filter(({ status }) => status !== 'offline').length;
  return (
    <div className="flex flex-wrap gap-x-3 text-sm" aria-live="polite">
      {online > 0 ? (
        <Status tone="good">{online === 1 ? '1 daemon matches' : `${online} daemons match`}</Status>
      ) : (
        <Status tone="warn">
          {daemons.data.length > 0
            ? 'All matching daemons are offline. The import will wait for one.'
            : 'No daemon matches. The import will wait for one.'}
        </Status>
      )}
      <Link to={paths.provisioners(organization.name)}>Provisioner daemons</Link>
    </div>
  );
}
