import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useDeferredValue } from 'react';
import { apiQuery } from '../../../api/query.ts';
import type { ParameterState } from '../../../forms/parameters/state.ts';
import { Status } from '../../../ui/badge.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { formatRelative } from '../../../util/time.ts';

/** Which provisioner daemons would take the build, and a warning before it waits for one. */
export function MatchingDaemons({
  versionId,
  states,
}: {
  versionId: string;
  /** Tags can depend on the values. */
  states: readonly ParameterState[];
}) {
  const values = states
    .filter(({ problem, value, defaultValue }) => problem === undefined && value !== defaultValue)
    .map(({ name, value }) => [name, value] as const);
  const parameters = useDeferredValue(JSON.stringify(Object.fromEntries(values)));
  const { data, isError } = useQuery({
    ...apiQuery('GET /templateversions/{templateversion}/provisioners', [{ kind: 'provisioner' }], {
      params: { templateversion: versionId },
      query: parameters === '{}' ? {} : { parameters },
    }),
    placeholderData: keepPreviousData,
    // while a person types, not every letter matters
    staleTime: 10_000,
  });
  if (isError) return null;
  // keeps its place, so that the buttons below do not move under the pointer
  if (!data) return <div className="h-5" />;
  const able = data.daemons.filter((daemon) => daemon.can_run);
  const online = able.filter(({ status }) => status !== 'offline');
  const idle = online.filter(({ status }) => status === 'idle').length;
  const closest = data.daemons.find((daemon) => !daemon.can_run && daemon.why);
  if (able.length === 0)
    return (
      <Notice
        tone="warn"
        title="The build will wait: no provisioner daemon can take it"
        detail={`It needs a daemon with the tags ${tagText(data.tags)}. An administrator of the organization can start one.`}
      >
        {closest && (
          <p className="text-text">
            {closest.name}: {closest.why}
          </p>
        )}
      </Notice>
    );
  if (online.length === 0) {
    const seen = data.matched_provisioners.most_recently_seen;
    return (
      <Notice
        tone="warn"
        title="The build will wait: the provisioner daemons that can take it are offline"
        detail={seen ? `One was last seen ${formatRelative(seen)}.` : undefined}
      />
    );
  }
  return (
    <div className="text-muted text-sm">
      <Status tone={idle > 0 ? 'good' : 'warn'}>
        {idle > 0
          ? `${idle} of ${able.length} provisioner daemons ${idle === 1 ? 'is' : 'are'} free`
          : 'All provisioner daemons are busy: the build waits for its turn'}
      </Status>
    </div>
  );
}

function tagText(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');
}
