import type { TemplateVersionParameter, Workspace } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { SlidersHorizontal } from 'lucide-react';
import { useState } from 'react';
import { errorText } from '../../../api/errors.ts';
import { workspacePermissions } from '../../../api/permissions.ts';
import { apiQuery, useChange } from '../../../api/query.ts';
import { LiveProblems } from '../../../forms/parameters/live-problems.tsx';
import { ParameterForm } from '../../../forms/parameters/parameter-form.tsx';
import type { NameValue } from '../../../forms/parameters/state.ts';
import { useLiveParameters } from '../../../forms/parameters/use-live-parameters.ts';
import { rejectedParameters, showFirstProblem, useParameters } from '../../../forms/parameters/use-parameters.ts';
import { Notice } from '../../../ui/notice.tsx';
import { Section } from '../../../ui/page.tsx';
import { SaveButtons } from '../../../ui/save.tsx';
import { EmptyState, ErrorView, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';
import { useCurrentWorkspace } from '../detail/current.ts';
import { orderBuild, valuesBeforeQuery } from '../queries.ts';
import { isActive } from '../status.ts';

/** The values of a workspace. Changing them starts a build. */
export default function ParametersPage() {
  const workspace = useCurrentWorkspace();
  const { latest_build: build } = workspace;
  const definitions = useQuery(
    apiQuery('GET /templateversions/{templateversion}/rich-parameters', [], {
      params: { templateversion: build.template_version_id },
    }),
  );
  const previous = useQuery(valuesBeforeQuery(build.id));
  const [discarded, setDiscarded] = useState(0);
  const error = definitions.error ?? previous.error;
  return (
    <Section
      title="Parameters"
      description="The values with which the template makes this workspace. New values apply with a build."
    >
      {definitions.data && previous.data ? (
        definitions.data.length === 0 && workspace.template_use_classic_parameter_flow ? (
          <NoParameters />
        ) : (
          <ChangeForm
            // a later build has other values
            key={`${build.id} ${discarded}`}
            onDiscard={() => setDiscarded(discarded + 1)}
            workspace={workspace}
            definitions={definitions.data}
            previous={previous.data}
          />
        )
      ) : error ? (
        <ErrorView error={error} />
      ) : (
        <SkeletonLines lines={6} />
      )}
    </Section>
  );
}

const NoParameters = () => <EmptyState icon={SlidersHorizontal} title="This template has no parameters" />;

function ChangeForm({
  workspace,
  definitions,
  previous,
  onDiscard,
}: {
  workspace: Workspace;
  definitions: readonly TemplateVersionParameter[];
  previous: readonly NameValue[];
  onDiscard: () => void;
}) {
  const go = useGo();
  const may = useQuery(workspacePermissions(workspace)).data;
  const { latest_build: build } = workspace;
  const classic = useParameters(definitions, { previous });
  const live = useLiveParameters(
    workspace.template_use_classic_parameter_flow
      ? undefined
      : { versionId: build.template_version_id, ownerId: workspace.owner_id, sources: { previous } },
  );
  const parameters = live ?? classic;
  const [tried, setTried] = useState(false);
  const save = useChange(
    () =>
      orderBuild(workspace.id, {
        transition: 'start',
        template_version_id: build.template_version_id,
        rich_parameter_values: parameters.values,
      }),
    { ownError: true, onSuccess: () => go(paths.workspace(workspace)) },
  );
  const changed = parameters.states.some(
    ({ value, previous: old, ephemeral, defaultValue }) => value !== (ephemeral ? defaultValue : (old ?? defaultValue)),
  );
  const busy = isActive(build.status);
  if (live?.ready === false) return <SkeletonLines lines={6} />;
  if (live?.states.length === 0 && live.problems.length === 0) return <NoParameters />;
  return (
    <form
      className="flex flex-col gap-5"
      onSubmit={(event) => {
        event.preventDefault();
        if (!changed) return;
        setTried(true);
        if (parameters.valid) save.mutate();
        else showFirstProblem(parameters.states);
      }}
    >
      <LiveProblems live={live} />
      <ParameterForm
        parameters={parameters.states}
        onChange={parameters.change}
        rejected={rejectedParameters(save.error)}
        showProblems={tried}
      />
      {save.error != null && <Notice tone="bad" {...errorText(save.error)} />}
      <div className="flex flex-wrap gap-2 empty:hidden">
        <SaveButtons
          name={build.status === 'running' ? 'Apply and restart what changes' : 'Save and start'}
          changed={changed && may?.start === true}
          problem={busy ? 'Wait for the build that is under way, or cancel it.' : undefined}
          pending={save.isPending}
          onDiscard={onDiscard}
        />
      </div>
    </form>
  );
}
