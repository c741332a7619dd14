import type { WorkspaceAgent, WorkspaceAgentLog, WorkspaceBuild } from '@platform/contract';
import { useCallback, useMemo, useState } from 'react';
import { createJobLogStore, createLogStore, type LogStore } from '../../../ui/log-store.ts';
import { type LogTarget, LogView } from '../../../ui/log-view.tsx';

/** A build's log, which its view and the links to its lines share. */
export interface BuildLogHandle {
  store: LogStore;
  target: LogTarget | undefined;
  /** Shows the line with this index. */
  show: (index: number) => void;
}

export function useBuildLog({ id }: Pick<WorkspaceBuild, 'id'>): BuildLogHandle {
  const store = useMemo(() => createJobLogStore(`/workspacebuilds/${id}/logs`), [id]);
  const [target, setTarget] = useState<LogTarget & { id: string }>();
  const show = useCallback((index: number) => setTarget({ id, index }), [id]);
  return { store, target: target?.id === id ? target : undefined, show };
}

/** The log of a build, by stage. */
export function BuildLog({
  build,
  log,
  height,
}: {
  build: WorkspaceBuild;
  log: BuildLogHandle;
  height?: string | undefined;
}) {
  return (
    <LogView
      key={build.id}
      store={log.store}
      target={log.target}
      label="Build log"
      name={`${build.workspace_name}-build-${build.build_number}`}
      empty="The build has written nothing."
      {...(height ? { height } : {})}
    />
  );
}

/** The log of an agent, by source: its own, and its scripts'. */
export function AgentLog({ agent, workspace }: { agent: WorkspaceAgent; workspace: string }) {
  const { id } = agent;
  const sources = JSON.stringify(agent.log_sources.map((source) => [source.id, source.display_name]));
  const store = useMemo(() => {
    const names = new Map(JSON.parse(sources) as [string, string][]);
    return createLogStore(`/workspaceagents/${id}/logs`, (message) =>
      (message as WorkspaceAgentLog[]).map((line) => ({
        id: line.id,
        at: line.created_at,
        level: line.level,
        section: names.get(line.source_id) ?? 'Agent',
        text: line.output,
      })),
    );
  }, [id, sources]);
  return (
    <LogView
      store={store}
      label={`Log of ${agent.name}`}
      name={`${workspace}-${agent.name}`}
      empty="The agent has written nothing."
      height="h-80"
    />
  );
}
