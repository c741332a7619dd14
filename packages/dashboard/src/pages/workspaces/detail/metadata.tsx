import type { WorkspaceAgent, WorkspaceAgentMetadata } from '@ropewalk/contract';
import { useEffect, useState } from 'react';
import { plainText } from '../../../ui/ansi.ts';
import { Skeleton } from '../../../ui/states.tsx';
import { Tooltip } from '../../../ui/tooltip.tsx';
import { isZeroTime } from '../../../util/time.ts';

const AGAIN_MS = 2_000;
/** A value is old after this many of its own intervals. */
const OLD_INTERVALS = 3;

/** The values that an agent collects, as they change. */
function useMetadata(agentId: string): readonly WorkspaceAgentMetadata[] | undefined {
  const [values, setValues] = useState<readonly WorkspaceAgentMetadata[]>();
  useEffect(() => {
    let source: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      source = new EventSource(`/api/v2/workspaceagents/${agentId}/watch-metadata`);
      source.addEventListener('data', (event) => setValues(JSON.parse(event.data) as WorkspaceAgentMetadata[]));
      source.onerror = () => {
        source?.close();
        timer = setTimeout(open, AGAIN_MS);
      };
    };
    open();
    return () => {
      source?.close();
      clearTimeout(timer);
    };
  }, [agentId]);
  return values;
}

/** What the template measures in the workspace, live. */
export function AgentMetadata({ agent }: { agent: WorkspaceAgent }) {
  const values = useMetadata(agent.id);
  if (values?.length === 0) return null;
  return (
    <dl className="grid grid-cols-[repeat(auto-fill,minmax(8.5rem,1fr))] gap-x-6 gap-y-3">
      {values === undefined ? (
        <Skeleton className="h-10 w-full" />
      ) : (
        values.map((value) => (
          <div key={value.description.key} className="min-w-0">
            <dt className="truncate text-muted text-sm">{value.description.display_name}</dt>
            <dd className="min-w-0">
              <Value value={value} />
            </dd>
          </div>
        ))
      )}
    </dl>
  );
}

function Value({ value: { result, description } }: { value: WorkspaceAgentMetadata }) {
  if (isZeroTime(result.collected_at)) return <span className="text-faint">Not measured yet</span>;
  if (result.error !== '')
    return (
      <Tooltip content={<span className="whitespace-pre-wrap break-words">{result.error}</span>}>
        <button type="button" className="max-w-full truncate text-left text-bad underline decoration-dotted">
          Error
        </button>
      </Tooltip>
    );
  const text = plainText(result.value).trim();
  const old = result.age > Math.max(10, description.interval * OLD_INTERVALS);
  return (
    <span
      title={old ? `${text} (${result.age} seconds old)` : text}
      className="block truncate font-medium tabular-nums"
    >
      {text || '–'}
      {old && <span className="ml-1.5 font-normal text-faint text-sm">old</span>}
    </span>
  );
}
