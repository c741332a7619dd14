import type { Workspace } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { errorText } from '../../api/errors.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { LiveProblems } from '../../forms/parameters/live-problems.tsx';
import { ParameterForm } from '../../forms/parameters/parameter-form.tsx';
import type { NameValue } from '../../forms/parameters/state.ts';
import { useLiveParameters } from '../../forms/parameters/use-live-parameters.ts';
import { rejectedParameters, showFirstProblem, useParameters } from '../../forms/parameters/use-parameters.ts';
import { useSubmitWhenReady } from '../../forms/parameters/use-submit-when-ready.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Markdown } from '../../ui/markdown.tsx';
import { Notice } from '../../ui/notice.tsx';
import { ErrorView, SkeletonLines } from '../../ui/states.tsx';
import { formatRelative } from '../../util/time.ts';
import { orderBuild, valuesBeforeQuery } from './queries.ts';

type Definitions = Parameters<typeof useParameters>[0];

/** Updates a workspace to the active version of its template, with the values that the version adds or changes. */
export default function UpdateDialog({ workspace, onClose }: { workspace: Workspace; onClose: () => void }) {
  const params = { templateversion: workspace.template_active_version_id };
  const version = useQuery(apiQuery('GET /templateversions/{templateversion}', [], { params }));
  const definitions = useQuery(apiQuery('GET /templateversions/{templateversion}/rich-parameters', [], { params }));
  const previous = useQuery(valuesBeforeQuery(workspace.latest_build.id));
  const error = version.error ?? definitions.error ?? previous.error;
  if (!version.data || !definitions.data || !previous.data)
    return (
      <Dialog open onClose={onClose} title={`Update ${workspace.name}`}>
        {error ? <ErrorView error={error} /> : <SkeletonLines lines={3} />}
      </Dialog>
    );
  return (
    <UpdateForm
      workspace={workspace}
      version={version.data}
      definitions={definitions.data}
      previous={previous.data}
      onClose={onClose}
    />
  );
}

function UpdateForm({
  workspace,
  version,
  definitions,
  previous,
  onClose,
}: {
  workspace: Workspace;
  version: { name: string; message: string; created_at: string };
  definitions: Definitions;
  previous: readonly NameValue[];
  onClose: () => void;
}) {
  const classic = useParameters(definitions, { previous });
  const live = useLiveParameters(
    workspace.template_use_classic_parameter_flow
      ? undefined
      : { versionId: workspace.template_active_version_id, ownerId: workspace.owner_id, sources: { previous } },
  );
  const parameters = live ?? classic;
  const [tried, setTried] = useState(false);
  const update = useChange(
    () =>
      orderBuild(workspace.id, {
        transition: 'start',
        template_version_id: workspace.template_active_version_id,
        rich_parameter_values: parameters.values,
      }),
    { ownError: true, onSuccess: onClose },
  );
  const { submit, waits } = useSubmitWhenReady(live, () => {
    setTried(true);
    if (parameters.valid) update.mutate();
    else showFirstProblem(parameters.states);
  });
  const known = new Set(previous.map(({ name }) => name));
  // values that are valid already stay as they are. The settings change them
  const asked = parameters.states.filter(
    (state) => !state.ephemeral && (!known.has(state.name) || state.problem !== undefined || state.touched),
  );
  const running = workspace.latest_build.status === 'running';
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Update ${workspace.name} to ${version.name}`}
      description={`Published ${formatRelative(version.created_at)}.`}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" pending={update.isPending || waits} onClick={submit}>
            {running ? 'Update' : 'Update and start'}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        {version.message && (
          <div className="rounded-md border border-line bg-sunken px-3 py-2">
            <Markdown text={version.message} />
          </div>
        )}
        {running && (
          <p>
            The workspace runs now. Terraform replaces what the new version changes, which can end programs that run in
            it.
          </p>
        )}
        <LiveProblems live={live} />
        {asked.length > 0 && (
          <ParameterForm
            parameters={asked}
            onChange={parameters.change}
            rejected={rejectedParameters(update.error)}
            showProblems={tried}
          />
        )}
        {update.error != null && <Notice tone="bad" {...errorText(update.error)} />}
      </div>
    </Dialog>
  );
}
