import type { Template, TemplateVersion } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { CircleCheck, FilePen, Pencil } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { ApiError, errorText } from '../../../api/errors.ts';
import { useChange } from '../../../api/query.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button, IconButton, LinkButton } from '../../../ui/button.tsx';
import { Dialog } from '../../../ui/dialog.tsx';
import { Field, Input, NativeSelect, TextArea } from '../../../ui/field.tsx';
import { LogView } from '../../../ui/log-view.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Section, useTitle } from '../../../ui/page.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { Tabs } from '../../../ui/tabs.tsx';
import { useNarrow } from '../../../ui/use-narrow.ts';
import { paths } from '../../../util/paths.ts';
import { useGo, useRouteParams, useSearchParams } from '../../../util/route.ts';
import { formatDate, formatRelative, useNow } from '../../../util/time.ts';
import { ImportNotice, ImportStatus } from '../build/import-status.tsx';
import type { Problem } from '../build/problems.ts';
import { useImport } from '../build/use-import.ts';
import { useImportAgain } from '../build/use-import-again.ts';
import {
  filesQuery,
  nameOf,
  resourcesQuery,
  useMayUpdate,
  useTemplate,
  versionByNameQuery,
  versionsQuery,
} from '../data.ts';
import { type DiffLook, DiffView } from '../files/diff-view.tsx';
import { SourceView } from '../files/source-view.tsx';
import { ResourceDetails } from './resource-list.tsx';
import { PromoteDialog } from './versions.tsx';

/** One version: its message, what changed in it, its source, resources and the log of its import. */
export default function TemplateVersionPage() {
  const template = useTemplate();
  const { version: name } = useRouteParams<'version'>();
  useTitle(name, nameOf(template));
  return (
    <QueryView
      query={useQuery(versionByNameQuery(template.id, name))}
      loading={<SkeletonLines lines={9} />}
      notFound={{
        title: 'Version not found',
        to: paths.templateVersions(template),
        all: 'All versions',
      }}
    >
      {(version) => <Loaded key={version.id} template={template} found={version as TemplateVersion} />}
    </QueryView>
  );
}

function Loaded({ template, found }: { template: Template; found: TemplateVersion }) {
  const mayUpdate = useMayUpdate(template);
  const [search, setSearch] = useSearchParams();
  const { version: current, log, problems } = useImport(found.id, () => setSearch({ tab: 'log' }));
  // the address has the name, which the new version takes over
  const again = useImportAgain();
  const version = current ?? found;
  const [promoting, setPromoting] = useState<TemplateVersion>();
  const [describing, setDescribing] = useState(false);
  const now = useNow(60_000);
  const active = version.id === template.active_version_id;
  const succeeded = version.job.status === 'succeeded';
  const tabs = [
    mayUpdate && {
      value: 'changes',
      name: 'Changes',
      content: <Changes template={template} version={version} compare={search['compare']} />,
    },
    mayUpdate && {
      value: 'source',
      name: 'Source',
      content: <Source version={version} problems={problems} />,
    },
    succeeded && { value: 'resources', name: 'Resources', content: <Resources versionId={version.id} /> },
    {
      value: 'log',
      name: 'Import log',
      content: (
        <LogView
          store={log.store}
          target={log.target}
          name={`${template.name}-${version.name}`}
          label="Import log"
          height="h-[max(20rem,calc(100dvh-28rem))]"
        />
      ),
    },
  ].filter((tab) => tab !== false);
  const shown = search['tab'] && tabs.some(({ value }) => value === search['tab']) ? search['tab'] : tabs[0]!.value;
  return (
    <>
      <div className="flex flex-wrap items-start gap-x-4 gap-y-3">
        <div className="min-w-0 flex-1 basis-72">
          <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <h2 className="wrap-anywhere font-semibold text-xl">{version.name}</h2>
            {active && <Badge tone="good">Active</Badge>}
            {version.archived && <Badge>Archived</Badge>}
            <ImportStatus job={version.job} />
            {mayUpdate && (
              <IconButton icon={Pencil} size="sm" label="Change name and message" onClick={() => setDescribing(true)} />
            )}
          </div>
          {version.message && <p className="mt-1 whitespace-pre-wrap break-words">{version.message}</p>}
          <p className="mt-1 text-muted">
            By {version.created_by.username},{' '}
            <time dateTime={version.created_at} title={formatDate(version.created_at)}>
              {formatRelative(version.created_at, now)}
            </time>
          </p>
        </div>
        {mayUpdate && (
          <div className="flex flex-wrap gap-2">
            <LinkButton to={paths.templateEditor(template, version.name)} icon={FilePen}>
              Edit from here
            </LinkButton>
            {!active && succeeded && !version.archived && (
              <Button look="primary" icon={CircleCheck} onClick={() => setPromoting(version)}>
                Make active
              </Button>
            )}
          </div>
        )}
      </div>
      <ImportNotice
        version={version}
        organizationName={template.organization_name}
        log={log}
        problems={problems}
        again={mayUpdate ? again : undefined}
        onOpen={({ file, line }) => setSearch({ tab: 'source', file, line: String(line ?? '') })}
      />
      <Tabs label="Version" value={shown} onChange={(tab) => setSearch({ tab })} tabs={tabs} />
      <PromoteDialog template={template} version={promoting} onClose={() => setPromoting(undefined)} />
      {describing && <DescribeDialog template={template} version={version} onClose={() => setDescribing(false)} />}
    </>
  );
}

function Changes({
  template,
  version,
  compare,
}: {
  template: Template;
  version: TemplateVersion;
  compare: string | undefined;
}) {
  const versions = useQuery(versionsQuery(template.id));
  const [{ view }, setSearch] = useSearchParams();
  const narrow = useNarrow();
  const look: DiffLook = !narrow && view === 'split' ? 'split' : 'unified';
  const all = versions.data ?? [];
  const others = all.filter(({ id }) => id !== version.id).toReversed();
  const before = all[all.findIndex(({ id }) => id === version.id) - 1];
  const base = others.find(({ name }) => name === compare) ?? before ?? others[0];
  const old = useQuery({ ...filesQuery(base?.job.file_id ?? ''), enabled: base !== undefined });
  const fresh = useQuery(filesQuery(version.job.file_id));
  if (versions.data && !base) {
    return (
      <Section>
        <p className="text-muted">This is the only version, so there is nothing to compare it with.</p>
      </Section>
    );
  }
  return (
    <Section
      flush
      title={
        <span className="flex flex-wrap items-center gap-2 font-normal">
          Compared with
          <span className="w-60 max-w-full">
            <NativeSelect
              aria-label="Compared with"
              value={base?.name ?? ''}
              onChange={(event) => setSearch({ compare: event.target.value })}
            >
              {others.map(({ id, name }) => (
                <option key={id} value={name}>
                  {name}
                  {id === template.active_version_id ? ' (active)' : ''}
                </option>
              ))}
            </NativeSelect>
          </span>
        </span>
      }
      actions={
        !narrow && (
          <div className="flex gap-1" role="group" aria-label="View">
            {(['unified', 'split'] as const).map((each) => (
              <Button
                key={each}
                size="sm"
                look={look === each ? 'default' : 'ghost'}
                aria-pressed={look === each}
                onClick={() => setSearch({ view: each })}
              >
                {each === 'unified' ? 'Unified' : 'Side by side'}
              </Button>
            ))}
          </div>
        )
      }
    >
      <QueryView query={old} loading={<Loading />}>
        {(before) => (
          <QueryView query={fresh} loading={<Loading />}>
            {(after) => <DiffView before={before} after={after} look={look} />}
          </QueryView>
        )}
      </QueryView>
    </Section>
  );
}

const Loading = () => (
  <div className="p-4">
    <SkeletonLines lines={6} />
  </div>
);

function Source({ version, problems }: { version: TemplateVersion; problems: readonly Problem[] }) {
  const [{ file, line }, setSearch] = useSearchParams();
  return (
    <Section flush>
      <QueryView query={useQuery(filesQuery(version.job.file_id))} loading={<Loading />}>
        {(files) => (
          <SourceView
            files={files}
            selected={file ?? problems.find((problem) => problem.file)?.file}
            onSelect={(path) => setSearch({ file: path, line: undefined })}
            problems={problems}
            line={Number(line) || undefined}
          />
        )}
      </QueryView>
    </Section>
  );
}

function Resources({ versionId }: { versionId: string }) {
  return (
    <Section flush>
      <QueryView query={useQuery(resourcesQuery(versionId))} loading={<Loading />}>
        {(resources) => <ResourceDetails resources={resources} />}
      </QueryView>
    </Section>
  );
}

/** Changes a version's name and message. */
function DescribeDialog({
  template,
  version,
  onClose,
}: {
  template: Template;
  version: TemplateVersion;
  onClose: () => void;
}) {
  const [name, setName] = useState(version.name);
  const [message, setMessage] = useState(version.message);
  const go = useGo();
  const save = useChange(
    () =>
      call('PATCH /templateversions/{templateversion}', {
        params: { templateversion: version.id },
        body: { name, message },
      }),
    {
      ownError: true,
      refetch: [
        'GET /templateversions/{templateversion}',
        'GET /templates/{template}/versions',
        ...(name === version.name ? (['GET /templates/{template}/versions/{templateversionname}'] as const) : []),
      ],
      onSuccess() {
        onClose();
        if (name !== version.name) go(paths.templateVersion(template, name), { replace: true });
      },
    },
  );
  const nameError =
    save.error instanceof ApiError ? save.error.validations.find(({ field }) => field === 'name') : undefined;
  return (
    <Dialog
      open
      onClose={onClose}
      title="Name and message"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            look="primary"
            pending={save.isPending}
            disabled={name === '' || (name === version.name && message === version.message)}
            onClick={() => save.mutate()}
          >
            Save
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <Field label="Name" error={nameError?.detail}>
          <Input value={name} onChange={(event) => setName(event.target.value)} />
        </Field>
        <Field label="Message" help="What changed, for people who update their workspaces.">
          <TextArea value={message} onChange={(event) => setMessage(event.target.value)} />
        </Field>
        {save.isError && !nameError && <Notice tone="bad" {...errorText(save.error)} />}
      </div>
    </Dialog>
  );
}
