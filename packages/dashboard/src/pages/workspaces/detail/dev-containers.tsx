import type { WorkspaceAgent, WorkspaceAgentDevcontainer } from '@ropewalk/contract';
import { Box, Play, RefreshCw, Trash2, X } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';
import { Badge, Status } from '../../../ui/badge.tsx';
import { Button, IconButton } from '../../../ui/button.tsx';
import type { Tone } from '../../../ui/classes.ts';
import { ConfirmDialog } from '../../../ui/dialog.tsx';
import { useContainers } from './use-containers.ts';

const LOOKS: Record<WorkspaceAgentDevcontainer['status'], { tone: Tone; text: string }> = {
  running: { tone: 'good', text: 'Running' },
  starting: { tone: 'busy', text: 'Starting' },
  stopped: { tone: 'neutral', text: 'Stopped' },
  error: { tone: 'bad', text: 'Failed' },
};

/** The dev containers of an agent, live. Nothing if it has none. */
export function DevContainers({ agent, mayChange }: { agent: WorkspaceAgent; mayChange: boolean }) {
  const list = useContainers(agent.id);
  if (!list || list.devcontainers.length === 0) return null;
  return (
    <div className="border-line border-t px-4 py-3">
      <h3 className="mb-2 text-muted text-sm">Dev containers</h3>
      {list.warnings?.map((warning) => (
        <p key={warning} className="mb-2 break-words text-sm text-warn">
          {warning}
        </p>
      ))}
      <ul className="divide-y divide-line rounded-md border border-line">
        {list.devcontainers.map((one) => (
          <DevContainer key={one.id} agent={agent} one={one} mayChange={mayChange} />
        ))}
      </ul>
    </div>
  );
}

function DevContainer({
  agent,
  one,
  mayChange,
}: {
  agent: WorkspaceAgent;
  one: WorkspaceAgentDevcontainer;
  mayChange: boolean;
}) {
  const [asked, setAsked] = useState<'rebuild' | 'remove'>();
  const params = { workspaceagent: agent.id, devcontainer: one.id };
  const recreate = () =>
    call('POST /workspaceagents/{workspaceagent}/containers/devcontainers/{devcontainer}/recreate', { params });
  const start = useChange(recreate);
  const remove = () =>
    call('DELETE /workspaceagents/{workspaceagent}/containers/devcontainers/{devcontainer}', { params });
  const cancel = useChange(remove);
  const look = LOOKS[one.status];
  const starting = one.status === 'starting';
  const busy = starting || start.isPending;
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 px-3 py-2.5">
      <div className="flex min-w-0 flex-1 basis-56 items-start gap-3">
        <Box size={17} aria-hidden="true" className="mt-0.5 shrink-0 text-faint" />
        <div className="min-w-0">
          <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <span className="wrap-anywhere font-medium">{one.name}</span>
            <span aria-live="polite">
              <Status tone={look.tone}>{look.text}</Status>
            </span>
            {one.dirty && <Badge tone="warn">Configuration changed</Badge>}
          </div>
          <div className="break-all text-muted text-sm">{one.config_path || one.workspace_folder}</div>
          {one.error && <p className="break-words text-bad text-sm">{one.error}</p>}
        </div>
      </div>
      {mayChange && (
        <div className="flex items-center gap-2">
          {one.container ? (
            <Button icon={RefreshCw} size="sm" pending={busy} onClick={() => setAsked('rebuild')}>
              Rebuild
            </Button>
          ) : (
            <Button icon={Play} size="sm" pending={busy} onClick={() => start.mutate()}>
              Start
            </Button>
          )}
          {starting && (
            <Button icon={X} size="sm" pending={cancel.isPending} onClick={() => cancel.mutate()}>
              Cancel
            </Button>
          )}
          {one.container && !starting && (
            <IconButton
              icon={Trash2}
              size="sm"
              label={`Remove the container of ${one.name}`}
              disabled={busy}
              onClick={() => setAsked('remove')}
            />
          )}
        </div>
      )}
      <ConfirmDialog
        open={asked === 'rebuild'}
        onClose={() => setAsked(undefined)}
        title={`Rebuild ${one.name}`}
        action="Rebuild"
        onConfirm={recreate}
      >
        The container is removed and built again from its configuration. Everything that runs in it ends, and files in
        it that are not in the workspace's folders are lost.
      </ConfirmDialog>
      <ConfirmDialog
        open={asked === 'remove'}
        onClose={() => setAsked(undefined)}
        title={`Remove the container of ${one.name}`}
        action="Remove"
        onConfirm={remove}
      >
        Everything that runs in the container ends, and files in it that are not in the workspace's folders are lost.
        You can start the dev container again.
      </ConfirmDialog>
    </li>
  );
}
