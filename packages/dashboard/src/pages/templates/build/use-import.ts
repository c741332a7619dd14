import type { TemplateVersion } from '@ropewalk/contract';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useSyncExternalStore } from 'react';
import { queryClient } from '../../../api/query.ts';
import { type JobLogHandle, useJobLog } from '../../../ui/job-log.ts';
import { versionQuery } from '../data.ts';
import { type Problem, problemsOf } from './problems.ts';

/**
 * The import of a version: the version as the server has it now, its log, and the problems that the log reports. `openLog`
 * makes the log visible, where it is not always.
 */
export function useImport(
  versionId: string,
  openLog?: () => void,
): {
  query: UseQueryResult<TemplateVersion>;
  version: TemplateVersion | undefined;
  log: JobLogHandle;
  problems: Problem[];
} {
  const query = useQuery(versionQuery(versionId));
  const log = useJobLog(`/templateversions/${versionId}/logs`, openLog);
  const { lines, count, state } = useSyncExternalStore(log.store.subscribe, log.store.snapshot);
  const problems = useMemo(() => problemsOf(lines.slice(0, count)), [lines, count]);
  useEffect(() => {
    // the server ends the log once the result is final
    if (state === 'complete') void queryClient.invalidateQueries({ queryKey: versionQuery(versionId).queryKey });
  }, [state, versionId]);
  return { query, version: query.data, log, problems };
}
