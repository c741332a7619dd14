import type { Template, TemplateVersionParameter } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { PanelBottomClose, PanelBottomOpen, SlidersHorizontal } from 'lucide-react';
import { Tabs as RadixTabs } from 'radix-ui';
import type { ReactNode } from 'react';
import { ParameterForm } from '../../../forms/parameters/parameter-form.tsx';
import { useParameters } from '../../../forms/parameters/use-parameters.ts';
import { IconButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { LogView } from '../../../ui/log-view.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { ImportNotice, ProblemList } from '../build/import-status.tsx';
import type { Problem } from '../build/problems.ts';
import { ProvisionerTags } from '../build/provisioner-tags.tsx';
import { isEnded, parametersQuery, resourcesQuery } from '../data.ts';
import { ResourceDetails } from '../template/resource-list.tsx';
import { VariableFields } from '../variable-fields.tsx';
import type { Builds } from './use-builds.ts';
import type { Panel, PanelTab } from './use-panel.ts';

const RUNNING = 'The import is running.';

interface Tab {
  value: PanelTab;
  name: string;
  content: ReactNode;
  /** Whether the content reaches the borders of the panel. */
  flush?: boolean;
}

const errorsOf = (problems: readonly Problem[]) => problems.filter(({ severity }) => severity === 'error');

function tabsOf(template: Template, builds: Builds, onOpen: (problem: Problem) => void): Tab[] {
  const { version, succeeded, log, problems, tags, setTags } = builds;
  const notYet = <p className="p-4 text-muted">{isEnded(version) ? 'The import did not succeed.' : RUNNING}</p>;
  return [
    {
      value: 'log',
      name: 'Log',
      flush: true,
      content: (
        <LogView
          key={version.id}
          store={log.store}
          target={log.target}
          name={`${template.name}-${version.name}`}
          label="Import log"
          height="h-dvh"
        />
      ),
    },
    {
      value: 'problems',
      name: problems.length > 0 ? `Problems (${problems.length})` : 'Problems',
      content: <Problems organizationName={template.organization_name} builds={builds} onOpen={onOpen} />,
    },
    {
      value: 'resources',
      name: 'Resources',
      flush: true,
      content: succeeded ? <ResourcePreview versionId={version.id} /> : notYet,
    },
    {
      value: 'parameters',
      name: 'Parameters',
      content: succeeded ? <ParameterPreview versionId={version.id} /> : notYet,
    },
    { value: 'variables', name: 'Variables', content: <Variables variables={builds.variables} /> },
    {
      value: 'provisioning',
      name: tags.length > 0 ? `Provisioner tags (${tags.length})` : 'Provisioner tags',
      content: (
        <div className="max-w-xl">
          <ProvisionerTags
            organization={{ id: template.organization_id, name: template.organization_name }}
            rows={tags}
            onChange={setTags}
          />
        </div>
      ),
    },
  ];
}

/** What the last import says, and what the next one needs. */
export function ImportPanel({
  template,
  builds,
  panel,
  onOpen,
}: {
  template: Template;
  builds: Builds;
  panel: Panel;
  /** Shows the place of a problem. */
  onOpen: (problem: Problem) => void;
}) {
  const tabs = tabsOf(template, builds, onOpen);
  const failed = errorsOf(builds.problems).length > 0;
  return (
    <RadixTabs.Root
      value={panel.tab}
      onValueChange={(next) => panel.show(next as PanelTab)}
      className={cx('flex shrink-0 flex-col border-line border-t bg-surface', panel.open && 'h-[38%] min-h-52')}
    >
      <div className="flex h-10 shrink-0 items-center border-line border-b pr-1">
        <RadixTabs.List aria-label="The last import" className="flex h-full min-w-0 flex-1 overflow-x-auto px-2">
          {tabs.map(({ value, name }) => (
            <RadixTabs.Trigger
              key={value}
              value={value}
              className={cx(
                'flex shrink-0 items-center whitespace-nowrap border-b-2 px-3 font-medium text-sm',
                value === panel.tab && panel.open
                  ? 'border-accent text-text'
                  : 'border-transparent text-muted hover:text-text',
                value === 'problems' && failed && 'text-bad',
              )}
            >
              {name}
            </RadixTabs.Trigger>
          ))}
        </RadixTabs.List>
        <IconButton
          icon={panel.open ? PanelBottomClose : PanelBottomOpen}
          size="sm"
          label={panel.open ? 'Hide the panel' : 'Show the panel'}
          aria-expanded={panel.open}
          onClick={() => panel.setOpen(!panel.open)}
        />
      </div>
      {panel.open &&
        tabs.map(({ value, content, flush }) => (
          <RadixTabs.Content key={value} value={value} className={cx('min-h-0 flex-1 overflow-auto', !flush && 'p-4')}>
            {content}
          </RadixTabs.Content>
        ))}
    </RadixTabs.Root>
  );
}

function Problems({
  organizationName,
  builds,
  onOpen,
}: {
  organizationName: string;
  builds: Builds;
  onOpen: (problem: Problem) => void;
}) {
  const { version, log, problems, again } = builds;
  const { status } = version.job;
  return (
    <div className="flex flex-col gap-4">
      <ImportNotice
        version={version}
        organizationName={organizationName}
        log={log}
        problems={problems}
        again={again}
        onOpen={onOpen}
      />
      {problems.length > 0 && errorsOf(problems).length === 0 && (
        <ProblemList problems={problems} log={log} onOpen={onOpen} />
      )}
      {problems.length === 0 && status !== 'failed' && status !== 'pending' && (
        <p className="text-muted">{isEnded(version) ? 'The last import found no problems.' : RUNNING}</p>
      )}
    </div>
  );
}

function Variables({ variables }: { variables: Builds['variables'] }) {
  const { definitions, values, setValues, showMissing } = variables;
  return (
    <div className="flex max-w-xl flex-col gap-4">
      {definitions.length === 0 ? (
        <p className="text-muted">The last import found no Terraform variables.</p>
      ) : (
        <>
          <p className="text-muted">Terraform variables have one value for all workspaces. Build to use them.</p>
          <VariableFields variables={definitions} values={values} onChange={setValues} showMissing={showMissing} />
        </>
      )}
    </div>
  );
}

const Loading = () => (
  <div className="p-4">
    <SkeletonLines lines={4} />
  </div>
);

function ResourcePreview({ versionId }: { versionId: string }) {
  return (
    <QueryView query={useQuery(resourcesQuery(versionId))} loading={<Loading />}>
      {(resources) => <ResourceDetails resources={resources} />}
    </QueryView>
  );
}

function ParameterPreview({ versionId }: { versionId: string }) {
  return (
    <QueryView query={useQuery(parametersQuery(versionId))}>
      {(parameters) => <ParameterTrial key={versionId} definitions={parameters} />}
    </QueryView>
  );
}

/** The form that people fill in when they create a workspace, to try. */
function ParameterTrial({ definitions }: { definitions: readonly TemplateVersionParameter[] }) {
  const { states, change } = useParameters(definitions, {});
  if (states.length === 0) {
    return (
      <EmptyState icon={SlidersHorizontal} title="No parameters">
        People are asked only for a name. Add a data "coder_parameter" to ask for more.
      </EmptyState>
    );
  }
  return (
    <div className="max-w-xl">
      <ParameterForm parameters={states} onChange={change} />
    </div>
  );
}
