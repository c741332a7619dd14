import type { TemplateVersion } from '@platform/contract';
import { useEffect, useRef } from 'react';
import { LogView } from '../../../ui/log-view.tsx';
import { ErrorView } from '../../../ui/states.tsx';
import { isEnded } from '../data.ts';
import { ImportNotice, ImportStatus } from './import-status.tsx';
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
  const { query, version, log, problems } = useImport(versionId);
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
      <div className="flex items-center justify-between gap-4">
        <h2 className="font-semibold">Import</h2>
        {version && <ImportStatus job={version.job} />}
      </div>
      <LogView store={log} name={`import-${version?.name ?? versionId}`} label="Import log" height="h-80" />
    </div>
  );
}
