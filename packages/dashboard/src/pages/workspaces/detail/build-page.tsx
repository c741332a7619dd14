import type { Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { CircleX } from 'lucide-react';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';
import { Badge, Status } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import type { Tone } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { Facts, Section } from '../../../ui/page.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useRouteParams } from '../../../util/route.ts';
import { formatDateTime, formatDuration, formatExact } from '../../../util/time.ts';
import { buildByNumber, buildParametersQuery, refreshWorkspace } from '../queries.ts';
import { buildLook, isActive } from '../status.ts';
import { type ParameterChange, parameterChanges } from './build-changes.ts';
import { BuildProblems } from './build-problems.tsx';
import { useCurrentWorkspace } from './current.ts';
import { BuildHistory, buildTitle } from './history.tsx';
import { BuildLog, useBuildLog } from './logs.tsx';
import { Resources } from './resources.tsx';
import { Timeline } from './timeline-view.tsx';

/** One build: what it did and when, its log, its parameters and what changed, its resources. */
export default function BuildPage() {
  const workspace = useCurrentWorkspace();
  const { number } = useRouteParams<'number'>();
  const build = useQuery(buildByNumber(workspace.owner_name, workspace.name, number, workspace.id));
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6 lg:grid-cols-[minmax(0,1fr)_19rem]">
      <div className="flex min-w-0 flex-col gap-5">
        <QueryView query={build} loading={<SkeletonLines lines={8} />}>
          {(data) => <Build workspace={workspace} build={data} />}
        </QueryView>
      </div>
      <aside aria-label="Builds">
        <Section title="Builds">
          <div className="-mx-2.5">
            <BuildHistory workspace={workspace} current={Number(number)} />
          </div>
        </Section>
      </aside>
    </div>
  );
}

function Build({ workspace, build }: { workspace: Workspace; build: WorkspaceBuild }) {
  const look = buildLook(build);
  const log = useBuildLog(build);
  const { job } = build;
  const cancel = useChange(async () => {
    await call('PATCH /workspacebuilds/{workspacebuild}/cancel', { params: { workspacebuild: build.id } });
    await refreshWorkspace(workspace.id);
  });
  const took = job.started_at && job.completed_at && Date.parse(job.completed_at) - Date.parse(job.started_at);
  const template = { organization_name: workspace.organization_name, name: workspace.template_name };
  return (
    <>
      <BuildProblems workspace={workspace} build={build} log={log} />
      <Section
        title={`Build ${build.build_number}: ${buildTitle(build)}`}
        actions={
          isActive(build.status) && (
            <Button size="sm" icon={CircleX} pending={cancel.isPending} onClick={() => cancel.mutate()}>
              {build.status === 'canceling' ? 'Force cancel' : 'Cancel'}
            </Button>
          )
        }
      >
        <Facts
          facts={[
            [
              'Result',
              <span key="result" aria-live="polite">
                <Status tone={job.status === 'succeeded' ? 'good' : look.tone}>
                  {job.status === 'succeeded' ? 'Succeeded' : look.text}
                </Status>
              </span>,
            ],
            [
              'Ordered',
              <time key="at" dateTime={build.created_at} title={formatExact(build.created_at)}>
                {formatDateTime(build.created_at)}
              </time>,
            ],
            took !== undefined && took !== '' && ['Took', formatDuration(took)],
            [
              'Version',
              <Link key="version" to={paths.templateVersion(template, build.template_version_name)}>
                {build.template_version_name}
              </Link>,
            ],
            job.worker_name ? ['Daemon', job.worker_name] : undefined,
          ]}
        />
      </Section>
      <Section title="Log">
        <BuildLog build={build} log={log} height={job.status === 'failed' ? 'h-80' : undefined} />
      </Section>
      <Section title="Timeline">
        <Timeline build={build} />
      </Section>
      <ParametersOf workspace={workspace} build={build} />
      <Resources resources={build.resources} dailyCost={build.daily_cost} />
    </>
  );
}

const CHANGES: Record<Exclude<ParameterChange['change'], 'same'>, { name: string; tone: Tone }> = {
  added: { name: 'New', tone: 'good' },
  removed: { name: 'Removed', tone: 'bad' },
  changed: { name: 'Changed', tone: 'warn' },
};

function ParametersOf({ workspace, build }: { workspace: Workspace; build: WorkspaceBuild }) {
  const values = useQuery(buildParametersQuery(build.id));
  const number = build.build_number - 1;
  const previous = useQuery({
    ...buildByNumber(workspace.owner_name, workspace.name, String(number), workspace.id),
    enabled: number > 0,
  }).data;
  const before = useQuery({ ...buildParametersQuery(previous?.id ?? build.id), enabled: previous !== undefined }).data;
  if (!values.data || values.data.length + (before?.length ?? 0) === 0) return null;
  const changes = parameterChanges(values.data, previous && before);
  const changed = changes.filter(({ change }) => change !== 'same').length;
  const version =
    previous && previous.template_version_id !== build.template_version_id
      ? `The template version changed from ${previous.template_version_name} to ${build.template_version_name}. `
      : '';
  return (
    <Section
      title="Parameters"
      description={
        previous &&
        `${version}${changed === 0 ? `Same values as in build ${number}.` : `${changed} changed since build ${number}.`}`
      }
      flush
    >
      <dl className="divide-y divide-line">
        {changes.map(({ name, value, before: old, change }) => (
          <div key={name} className="flex flex-wrap items-baseline gap-x-4 gap-y-1 px-4 py-2">
            <dt className="min-w-0 flex-1 basis-40 wrap-anywhere text-muted">{name}</dt>
            <dd className="flex min-w-0 flex-2 basis-60 flex-wrap items-baseline gap-2">
              {change !== 'same' && old !== undefined && (
                <del className="break-all font-mono text-bad text-sm">{old === '' ? '(empty)' : old}</del>
              )}
              {value !== undefined && (
                <span className="whitespace-pre-wrap break-all font-mono text-sm">
                  {value === '' ? '(empty)' : value}
                </span>
              )}
              {change !== 'same' && <Badge tone={CHANGES[change].tone}>{CHANGES[change].name}</Badge>}
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
