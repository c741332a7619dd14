import type { WorkspaceAgent, WorkspaceAgentLog, WorkspaceBuild } from '@ropewalk/contract';
import { useMemo } from 'react';
import { type JobLogHandle, useJobLog } from '../../../ui/job-log.ts';
import { createLogStore } from '../../../ui/log-store.ts';
import { LogView } from '../../../ui/log-view.tsx';

export const useBuildLog = ({ id }: Pick<WorkspaceBuild, 'id'>): JobLogHandle =>
  useJobLog(`/workspacebuilds/${id}/logs`);

/** The log of a build, by stage. */
export function BuildLog({
  build,
  log,
  height,
}: {
  build: WorkspaceBuild;
  log: JobLogHandle;
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
