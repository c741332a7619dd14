import type { TemplateVersion } from '@ropewalk/contract';
import { useEffect, useRef } from 'react';
import { LogView } from '../../../ui/log-view.tsx';
import { ErrorView } from '../../../ui/states.tsx';
import { isEnded } from '../data.ts';
import { ImportNotice, ImportStatus } from './import-status.tsx';
import { useImport } from './use-import.ts';
import { useImportAgain } from './use-import-again.ts';

/** An import under way: its state, why it waits or failed, and its live log. `onEnd` is called once. */
export function ImportPanel({
  versionId,
  organizationName,
  onEnd,
  onReplaced,
}: {
  versionId: string;
  organizationName: string;
  onEnd?: (version: TemplateVersion) => void;
  /** Called with the version that replaces this one because it has more tags. */
  onReplaced: (version: TemplateVersion) => void;
}) {
  const { query, version, log, problems } = useImport(versionId);
  const again = useImportAgain(onReplaced);
  const ended = useRef('');
  const end = useRef(onEnd);
  end.current = onEnd;
  useEffect(() => {
    // the end of a version that is being replaced is not the end of the import
    if (!version || !isEnded(version) || ended.current === version.id || again.isPending || again.isSuccess) return;
    ended.current = version.id;
    end.current?.(version);
  }, [version, again.isPending, again.isSuccess]);
  if (query.isError && !version) return <ErrorView error={query.error} retry={() => void query.refetch()} />;
  return (
    <div className="flex flex-col gap-4">
      {version && (
        <ImportNotice
          version={version}
          organizationName={organizationName}
          log={log}
          problems={problems}
          again={again}
        />
      )}
      <div className="flex items-center justify-between gap-4">
        <h2 className="font-semibold">Import</h2>
        {version && <ImportStatus job={version.job} />}
      </div>
      <LogView
        store={log.store}
        target={log.target}
        name={`import-${version?.name ?? versionId}`}
        label="Import log"
        height="h-80"
      />
    </div>
  );
}
