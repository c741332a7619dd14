import type { Workspace } from '@ropewalk/contract';
import { Minus, Plus } from 'lucide-react';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';
import { IconButton } from '../../../ui/button.tsx';
import { formatExact, formatRelative, isZeroTime, serverNow, useNow } from '../../../util/time.ts';
import { patchCached } from '../queries.ts';

const HOUR_MS = 3_600_000;
/** The server keeps a workspace for at least this long. */
const LEAST_MS = 31 * 60_000;

/** When a running workspace stops by itself, with buttons that move it by an hour. */
export function Deadline({ workspace, changeable }: { workspace: Workspace; changeable: boolean }) {
  const now = useNow(10_000);
  const { latest_build: build } = workspace;
  const extend = useChange(async (deadline: number) => {
    const text = new Date(deadline).toISOString();
    patchCached(workspace.id, (old) => ({ ...old, latest_build: { ...old.latest_build, deadline: text } }));
    await call('PUT /workspaces/{workspace}/extend', { params: { workspace: workspace.id }, body: { deadline: text } });
  });
  if (isZeroTime(build.deadline)) return <>Never by itself</>;
  const deadline = Date.parse(build.deadline!);
  const latest = isZeroTime(build.max_deadline) ? Number.POSITIVE_INFINITY : Date.parse(build.max_deadline!);
  return (
    <span className="flex items-center gap-1">
      <time dateTime={build.deadline} title={formatExact(deadline)} className="flex-1">
        {formatRelative(deadline, now)}
      </time>
      {changeable && (
        <>
          <IconButton
            icon={Minus}
            size="sm"
            label="Stop an hour earlier"
            disabled={extend.isPending || deadline - HOUR_MS - now < LEAST_MS}
            onClick={() => extend.mutate(Math.max(deadline - HOUR_MS, serverNow() + LEAST_MS))}
          />
          <IconButton
            icon={Plus}
            size="sm"
            label="Stop an hour later"
            disabled={extend.isPending || deadline + HOUR_MS > latest}
            onClick={() => extend.mutate(deadline + HOUR_MS)}
          />
        </>
      )}
    </span>
  );
}
