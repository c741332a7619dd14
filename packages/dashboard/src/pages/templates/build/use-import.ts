import type { ProvisionerJobLog, TemplateVersion } from '@platform/contract';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { queryClient } from '../../../api/query.ts';
import { isEnded, versionQuery } from '../data.ts';

const RETRY_MS = 1_000;
/** Lines that arrive together are one update of the page. */
const GATHER_MS = 50;

/**
 * Follows the log of an import until the import has ended. The server closes the connection once the result is final.
 * After an interruption it continues behind the last line.
 */
function useImportLog(versionId: string | undefined): ProvisionerJobLog[] {
  const [log, setLog] = useState<{ of: string | undefined; lines: ProvisionerJobLog[] }>({ of: undefined, lines: [] });
  useEffect(() => {
    if (versionId === undefined) return;
    let socket: WebSocket | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let flushTimer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    let last = 0;
    let gathered: ProvisionerJobLog[] = [];
    setLog({ of: versionId, lines: [] });
    const flush = () => {
      flushTimer = undefined;
      const fresh = gathered;
      gathered = [];
      setLog(({ lines }) => ({ of: versionId, lines: [...lines, ...fresh] }));
    };
    const open = () => {
      const url = new URL(`/api/v2/templateversions/${encodeURIComponent(versionId)}/logs`, location.href);
      url.protocol = url.protocol.replace('http', 'ws');
      url.search = new URLSearchParams({ follow: 'true', ...(last ? { after: String(last) } : {}) }).toString();
      socket = new WebSocket(url);
      socket.onmessage = ({ data }) => {
        const line = JSON.parse(String(data)) as ProvisionerJobLog;
        last = line.id;
        gathered.push(line);
        flushTimer ??= setTimeout(flush, GATHER_MS);
      };
      socket.onclose = () => {
        if (over) return;
        const again = () => {
          if (!over) timer = setTimeout(open, RETRY_MS);
        };
        queryClient.fetchQuery({ ...versionQuery(versionId), staleTime: 0 }).then((version) => {
          if (!isEnded(version)) again();
        }, again);
      };
    };
    open();
    return () => {
      over = true;
      clearTimeout(timer);
      clearTimeout(flushTimer);
      socket?.close();
    };
  }, [versionId]);
  return log.of === versionId ? log.lines : [];
}

/** The import of a version: the version as the server has it now, and the log so far. */
export function useImport(versionId: string | undefined): {
  query: UseQueryResult<TemplateVersion>;
  version: TemplateVersion | undefined;
  log: ProvisionerJobLog[];
} {
  const query = useQuery({ ...versionQuery(versionId ?? ''), enabled: versionId !== undefined });
  return { query, version: versionId === undefined ? undefined : query.data, log: useImportLog(versionId) };
}
