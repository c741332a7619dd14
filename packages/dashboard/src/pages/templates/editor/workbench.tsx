import type { Template, TemplateVersion, TemplateVersionParameter } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useBlocker } from '@tanstack/react-router';
import {
  ArrowLeft,
  FileQuestion,
  Hammer,
  PanelBottomClose,
  PanelBottomOpen,
  Rocket,
  SlidersHorizontal,
} from 'lucide-react';
import { Tabs as RadixTabs } from 'radix-ui';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';
import { ParameterForm } from '../../../forms/parameters/parameter-form.tsx';
import { useParameters } from '../../../forms/parameters/use-parameters.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button, IconButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { ConfirmDialog } from '../../../ui/dialog.tsx';
import { Link } from '../../../ui/link.tsx';
import { LogView } from '../../../ui/log-view.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import type { TagRow } from '../../../ui/tags.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';
import { ImportNotice, ImportStatus, ProblemList } from '../build/import-status.tsx';
import type { Problem } from '../build/problems.ts';
import { ProvisionerTags } from '../build/provisioner-tags.tsx';
import { tagRows, tagsOf } from '../build/tags.ts';
import { useImport } from '../build/use-import.ts';
import { useImportAgain } from '../build/use-import-again.ts';
import { isEnded, nameOf, parametersQuery, resourcesQuery, variablesQuery } from '../data.ts';
import { Code } from '../source/code.tsx';
import type { Place } from '../source/code-view.tsx';
import type { TarFile } from '../source/tar.ts';
import { firstFile, within } from '../source/tree.ts';
import { uploadFiles } from '../source/upload.ts';
import { ResourceDetails } from '../template/resource-list.tsx';
import { missingVariables, VariableFields, type VariableValues, valuesOf, valuesToSend } from '../variable-fields.tsx';
import {
  changedPaths,
  draftOf,
  filesOf,
  isChanged,
  renamed,
  renamedPath,
  withFiles,
  without,
  withText,
} from './draft.ts';
import { FilePanel } from './file-panel.tsx';
import { OpenFiles } from './open-files.tsx';
import { PublishDialog } from './publish-dialog.tsx';

type PanelTab = 'log' | 'problems' | 'resources' | 'parameters' | 'variables' | 'provisioning';

/** The editor: files on the left, their text in the middle, and below what the last import says. */
export function Workbench({
  template,
  start,
  files,
  onVersion,
}: {
  template: Template;
  start: TemplateVersion;
  files: readonly TarFile[];
  /** Called with the name of each version that this editor makes, before the address shows it. */
  onVersion: (name: string) => void;
}) {
  const [base, setBase] = useState(() => draftOf(files));
  const [draft, setDraft] = useState(base);
  const all = useMemo(() => [...draft.keys()].sort(), [draft]);
  const changed = useMemo(() => changedPaths(draft, base), [draft, base]);
  const dirty = isChanged(draft, base);
  const [open, setOpen] = useState<readonly string[]>(() => [firstFile(all)].filter((path) => path !== undefined));
  const [active, setActive] = useState<string | undefined>(open[0]);
  const [place, setPlace] = useState<Place>();
  const [tab, setTab] = useState<PanelTab>('log');
  const [panelOpen, setPanelOpen] = useState(true);
  const [publishing, setPublishing] = useState(false);
  const [tags, setTags] = useState<readonly TagRow[]>(() => tagRows(start.job.tags));
  const [made, setMade] = useState<TemplateVersion>();
  const { version: followed, log, problems } = useImport((made ?? start).id, () => setTab('log'));
  const again = useImportAgain((next) => {
    setTags(tagRows(next.job.tags));
    setMade(next);
  });
  const version = followed ?? made ?? start;
  const here = useMemo(() => problems.filter(({ file }) => file === active), [problems, active]);
  const ended = isEnded(version);
  const succeeded = version.job.status === 'succeeded';
  const needsVariables = version.job.error_code === 'REQUIRED_TEMPLATE_VARIABLES';

  const variables = useQuery({ ...variablesQuery(version.id), enabled: succeeded || needsVariables });
  const known = useRef(variables.data);
  known.current = variables.data ?? known.current;
  const [typed, setTyped] = useState<VariableValues>({});
  const values: VariableValues = { ...valuesOf(known.current ?? []), ...typed };

  const go = useGo();
  const target = useRef('');
  const show = (next: TemplateVersion) => {
    onVersion(next.name);
    target.current = paths.templateEditor(template, next.name);
    go(target.current, { replace: true });
  };
  const build = useChange(
    async () => {
      const built = draft;
      const version = await call('POST /organizations/{organization}/templateversions', {
        params: { organization: template.organization_id },
        body: {
          template_id: template.id,
          file_id: await uploadFiles(filesOf(built)),
          provisioner: 'terraform',
          storage_method: 'file',
          tags: tagsOf(tags),
          user_variable_values: valuesToSend(known.current ?? [], values),
        },
      });
      return { version, built };
    },
    {
      refetch: ['GET /templates/{template}/versions'],
      onSuccess({ version: next, built }) {
        setBase(built);
        setMade(next);
        setTab('log');
        setPanelOpen(true);
        show(next);
      },
    },
  );
  const building = build.isPending || !ended;

  // once per import of this editor, the panel shows what matters about its end
  const reported = useRef('');
  useEffect(() => {
    if (!made || !ended || version.id !== made.id || reported.current === made.id) return;
    reported.current = made.id;
    setTab(needsVariables ? 'variables' : succeeded ? 'resources' : 'problems');
  }, [made, ended, version.id, needsVariables, succeeded]);

  const blocker = useBlocker({
    shouldBlockFn: ({ next }) => dirty && decodeURIComponent(next.pathname) !== decodeURIComponent(target.current),
    enableBeforeUnload: () => dirty,
    withResolver: true,
  });

  const select = (path: string, line?: number) => {
    if (!draft.has(path)) return;
    setOpen((before) => (before.includes(path) ? before : [...before, path]));
    setActive(path);
    setPlace(line === undefined ? undefined : { line });
  };
  const openProblem = ({ file, line }: Problem) => file !== undefined && select(file, line);
  const close = (gone: readonly string[]) => {
    const rest = open.filter((path) => !gone.includes(path));
    setOpen(rest);
    if (active !== undefined && gone.includes(active)) setActive(rest[Math.min(open.indexOf(active), rest.length - 1)]);
  };
  const startBuild = () => {
    if (!building) build.mutate();
  };
  const file = active === undefined ? undefined : draft.get(active);
  const mayPublish = succeeded && !dirty && version.id !== template.active_version_id;
  const errors = problems.filter(({ severity }) => severity === 'error').length;
  const panels: { value: PanelTab; name: ReactNode; content: ReactNode; flush?: boolean }[] = [
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
      content: (
        <div className="flex flex-col gap-4">
          <ImportNotice
            version={version}
            organizationName={template.organization_name}
            log={log}
            problems={problems}
            again={again}
            onOpen={openProblem}
          />
          {errors === 0 && problems.length > 0 && <ProblemList problems={problems} log={log} onOpen={openProblem} />}
          {problems.length === 0 && version.job.status !== 'failed' && version.job.status !== 'pending' && (
            <p className="text-muted">{ended ? 'The last import found no problems.' : 'The import is running.'}</p>
          )}
        </div>
      ),
    },
    {
      value: 'resources',
      name: 'Resources',
      flush: true,
      content: succeeded ? <ResourcePreview versionId={version.id} /> : <NotYet ended={ended} />,
    },
    {
      value: 'parameters',
      name: 'Parameters',
      content: succeeded ? <ParameterPreview versionId={version.id} /> : <NotYet ended={ended} />,
    },
    {
      value: 'variables',
      name: 'Variables',
      content: (
        <div className="flex max-w-xl flex-col gap-4">
          {(known.current ?? []).length === 0 ? (
            <p className="text-muted">The last import found no Terraform variables.</p>
          ) : (
            <>
              <p className="text-muted">Terraform variables have one value for all workspaces. Build to use them.</p>
              <VariableFields
                variables={known.current!}
                values={values}
                onChange={setTyped}
                showMissing={needsVariables && missingVariables(known.current!, values).length > 0}
              />
            </>
          )}
        </div>
      ),
    },
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

  return (
    <div className="flex h-[calc(100dvh-3.25rem-1px)] min-h-120 flex-col">
      <header className="flex h-13 shrink-0 items-center gap-3 border-line border-b bg-surface px-4">
        <Link
          to={paths.templateVersions(template)}
          plain
          aria-label="Back to the template"
          className="flex size-7 items-center justify-center rounded-md text-muted hover:bg-hover hover:text-text"
        >
          <ArrowLeft size={16} aria-hidden="true" />
        </Link>
        <h1 className="truncate font-semibold">{nameOf(template)}</h1>
        <span className="hidden min-w-0 truncate font-mono text-muted text-sm md:inline">{version.name}</span>
        {version.id === template.active_version_id && !dirty && <Badge tone="good">Active</Badge>}
        <span aria-live="polite">
          {dirty ? <Badge tone="warn">Not built</Badge> : <ImportStatus job={version.job} />}
        </span>
        <div className="flex-1" />
        <Button icon={Hammer} pending={building} look={mayPublish ? 'default' : 'primary'} onClick={startBuild}>
          Build
        </Button>
        <Button
          icon={Rocket}
          look={mayPublish ? 'primary' : 'default'}
          disabled={!mayPublish}
          title={
            mayPublish
              ? undefined
              : dirty
                ? 'Build the changes first.'
                : version.id === template.active_version_id
                  ? 'This version is active.'
                  : 'Only a version that is ready can be published.'
          }
          onClick={() => setPublishing(true)}
        >
          Publish
        </Button>
      </header>
      <div className="flex min-h-0 flex-1">
        <FilePanel
          paths={all}
          changed={changed}
          selected={active}
          onSelect={select}
          onCreate={(path) => {
            setDraft(withText(draft, path, ''));
            setOpen([...open, path]);
            setActive(path);
          }}
          onRename={(from, to) => {
            setDraft(renamed(draft, from, to));
            setOpen(open.map((path) => renamedPath(path, from, to)));
            if (active !== undefined) setActive(renamedPath(active, from, to));
          }}
          onDelete={(path) => {
            close(within(all, path));
            setDraft(without(draft, path));
          }}
          onUpload={(uploaded) => {
            setDraft(withFiles(draft, uploaded));
            const [first] = uploaded;
            if (!first) return;
            setOpen([...new Set([...open, first.path])]);
            setActive(first.path);
          }}
        />
        <div className="flex min-w-0 flex-1 flex-col">
          <OpenFiles
            open={open}
            active={active}
            changed={changed}
            onSelect={select}
            onClose={(path) => close([path])}
          />
          <div className="min-h-0 flex-1 bg-surface">
            {active === undefined || !file ? (
              <EmptyState icon={FileQuestion} title="No file is open">
                Choose a file on the left.
              </EmptyState>
            ) : file.text === undefined ? (
              <EmptyState icon={FileQuestion} title="Not a text file">
                It is part of the template, but cannot be edited here.
              </EmptyState>
            ) : (
              <Code
                path={active}
                text={file.text}
                problems={here}
                place={place}
                onChange={(text) => setDraft((before) => withText(before, active, text))}
                onSave={startBuild}
              />
            )}
          </div>
          <RadixTabs.Root
            value={tab}
            onValueChange={(next) => {
              setTab(next as PanelTab);
              setPanelOpen(true);
            }}
            className={cx('flex shrink-0 flex-col border-line border-t bg-surface', panelOpen && 'h-[38%] min-h-52')}
          >
            <div className="flex h-10 shrink-0 items-center border-line border-b pr-1">
              <RadixTabs.List aria-label="The last import" className="flex h-full min-w-0 flex-1 overflow-x-auto px-2">
                {panels.map(({ value, name }) => (
                  <RadixTabs.Trigger
                    key={value}
                    value={value}
                    className={cx(
                      'flex shrink-0 items-center whitespace-nowrap border-b-2 px-3 font-medium text-sm',
                      value === tab && panelOpen
                        ? 'border-accent text-text'
                        : 'border-transparent text-muted hover:text-text',
                      value === 'problems' && errors > 0 && 'text-bad',
                    )}
                  >
                    {name}
                  </RadixTabs.Trigger>
                ))}
              </RadixTabs.List>
              <IconButton
                icon={panelOpen ? PanelBottomClose : PanelBottomOpen}
                size="sm"
                label={panelOpen ? 'Hide the panel' : 'Show the panel'}
                aria-expanded={panelOpen}
                onClick={() => setPanelOpen(!panelOpen)}
              />
            </div>
            {panelOpen &&
              panels.map(({ value, content, flush }) => (
                <RadixTabs.Content
                  key={value}
                  value={value}
                  className={cx('min-h-0 flex-1 overflow-auto', !flush && 'p-4')}
                >
                  {content}
                </RadixTabs.Content>
              ))}
          </RadixTabs.Root>
        </div>
      </div>
      {publishing && (
        <PublishDialog
          template={template}
          version={version}
          onPublished={(saved) => {
            if (saved.name !== version.name) show(saved);
          }}
          onClose={() => setPublishing(false)}
        />
      )}
      <ConfirmDialog
        open={blocker.status === 'blocked'}
        onClose={() => blocker.reset?.()}
        title="Leave without building?"
        action="Leave"
        danger
        onConfirm={async () => blocker.proceed?.()}
      >
        <p>Your changes are only in this page. They are lost if you leave it before you build.</p>
      </ConfirmDialog>
    </div>
  );
}

function NotYet({ ended }: { ended: boolean }) {
  return <p className="p-4 text-muted">{ended ? 'The import did not succeed.' : 'The import is running.'}</p>;
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
