import type { TemplateVersion } from '@platform/contract';
import { useEffect, useMemo, useRef } from 'react';
import { Section } from '../../../ui/page.tsx';
import { ErrorView } from '../../../ui/states.tsx';
import { isEnded } from '../data.ts';
import { ImportNotice, ImportStatus } from './import-status.tsx';
import { LogView } from './log-view.tsx';
import { problemsOf } from './problems.ts';
import { useImport } from './use-import.ts';

/** An import under way: its state, why it waits or failed, and its live log. `onEnd` is called once. */
export function ImportPanel({
  versionId,
  organizationName,
  onEnd,
}: {
  versionId: string;
  organizationName: string;
  onEnd?: (version: TemplateVersion) => void;
}) {
  const { query, version, log } = useImport(versionId);
  const problems = useMemo(() => problemsOf(log), [log]);
  const ended = useRef('');
  const end = useRef(onEnd);
  end.current = onEnd;
  useEffect(() => {
    if (!version || !isEnded(version) || ended.current === version.id) return;
    ended.current = version.id;
    end.current?.(version);
  }, [version]);
  if (query.isError && !version) return <ErrorView error={query.error} retry={() => void query.refetch()} />;
  return (
    <div className="flex flex-col gap-4">
      {version && <ImportNotice version={version} organizationName={organizationName} problems={problems} />}
      <Section title="Import" flush actions={version && <ImportStatus job={version.job} />}>
        <div className="h-80" aria-busy={!version || !isEnded(version)}>
          <LogView log={log} waiting="Waiting for the first line…" />
        </div>
      </Section>
    </div>
  );
}
