import type { Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Status } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { formatExact, formatRelative, useNow } from '../../../util/time.ts';
import { buildsQuery } from '../queries.ts';
import { buildLook } from '../status.ts';

const FIRST = 10;
const MORE = 50;

const REASONS: Record<WorkspaceBuild['reason'], string> = {
  initiator: '',
  autostart: 'by its schedule',
  autostop: 'by its schedule',
  dormancy: 'as it was not used',
  dashboard: '',
  cli: 'from the command line',
  ssh_connection: 'for an SSH connection',
  vscode_connection: 'for VS Code',
  jetbrains_connection: 'for JetBrains',
};

const DID = { start: 'Start', stop: 'Stop', delete: 'Delete' } as const;

/** The transition of a build, its initiator and its reason: "Start by maria". */
export function buildTitle(build: WorkspaceBuild): string {
  const reason = REASONS[build.reason];
  const automatic = build.reason === 'autostart' || build.reason === 'autostop' || build.reason === 'dormancy';
  return [DID[build.transition], automatic ? '' : `by ${build.initiator_name}`, reason].filter(Boolean).join(' ');
}

/** The builds of a workspace, newest first. */
export function BuildHistory({ workspace, current }: { workspace: Workspace; current?: number | undefined }) {
  const [limit, setLimit] = useState(FIRST);
  const builds = useQuery({ ...buildsQuery(workspace.id, limit), placeholderData: (previous) => previous });
  const now = useNow(30_000);
  return (
    <QueryView query={builds} loading={<SkeletonLines lines={5} />}>
      {(list) => (
        <>
          <ol className="flex flex-col">
            {list.map((build) => {
              const look = buildLook(build);
              return (
                <li key={build.id}>
                  <Link
                    to={paths.workspaceBuild(workspace, build.build_number)}
                    plain
                    aria-current={build.build_number === current ? 'page' : undefined}
                    className={cx(
                      'flex flex-col rounded-md px-2.5 py-1.5 hover:bg-hover',
                      build.build_number === current && 'bg-active',
                    )}
                  >
                    <span className="flex min-w-0 items-center gap-2">
                      <span className="min-w-0 flex-1 truncate">
                        <span className="text-muted">#{build.build_number}</span> {buildTitle(build)}
                      </span>
                      {look.tone !== 'good' && look.tone !== 'neutral' && (
                        <span className="text-sm">
                          <Status tone={look.tone}>{look.text}</Status>
                        </span>
                      )}
                    </span>
                    <span className="flex min-w-0 gap-2 text-muted text-sm">
                      <time dateTime={build.created_at} title={formatExact(build.created_at)} className="shrink-0">
                        {formatRelative(build.created_at, now)}
                      </time>
                      <span className="min-w-0 truncate">{build.template_version_name}</span>
                    </span>
                  </Link>
                </li>
              );
            })}
          </ol>
          {list.length === limit && (
            <div className="mt-2">
              <Button size="sm" look="ghost" pending={builds.isFetching} onClick={() => setLimit(limit + MORE)}>
                Show older builds
              </Button>
            </div>
          )}
        </>
      )}
    </QueryView>
  );
}
