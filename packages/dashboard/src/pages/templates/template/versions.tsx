import type { Template, TemplateVersion } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Archive, ArchiveRestore, CircleCheck, Ellipsis, FileDiff, FilePen, History } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Badge } from '../../../ui/badge.tsx';
import { Button, IconButton } from '../../../ui/button.tsx';
import { Checkbox } from '../../../ui/checkbox.tsx';
import { ConfirmDialog } from '../../../ui/dialog.tsx';
import { RowLink } from '../../../ui/link.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../../ui/menu.tsx';
import { Section, useTitle } from '../../../ui/page.tsx';
import { EmptyState, ErrorView } from '../../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../../ui/table.tsx';
import { toast } from '../../../ui/toast.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';
import { formatDate, formatRelative, useNow } from '../../../util/time.ts';
import { ImportStatus } from '../build/import-status.tsx';
import { nameOf, useMayUpdate, useTemplate, versionsQuery } from '../data.ts';

/** Makes a version the active one, which new workspaces get. */
export function usePromote(template: Template) {
  return useChange(
    (version: Pick<TemplateVersion, 'id' | 'name'>) =>
      call('PATCH /templates/{template}/versions', { params: { template: template.id }, body: { id: version.id } }),
    {
      refetch: ['GET /organizations/{organization}/templates/{templatename}', 'GET /templates/{template}/versions'],
      ownError: true,
      onSuccess: (_, { name }) => toast({ title: `${name} is the active version now.` }),
    },
  );
}

/** Asks before a version becomes the active one. */
export function PromoteDialog({
  template,
  version,
  onClose,
}: {
  template: Template;
  version: TemplateVersion | undefined;
  onClose: () => void;
}) {
  const promote = usePromote(template);
  return (
    <ConfirmDialog
      open={version !== undefined}
      onClose={onClose}
      title="Make this the active version?"
      action="Make active"
      onConfirm={() => version && promote.mutateAsync(version)}
    >
      <p>
        New workspaces get <b className="wrap-anywhere">{version?.name}</b>. Existing workspaces keep their version and
        show that an update is available{template.require_active_version && ', and get it with their next start'}.
      </p>
    </ConfirmDialog>
  );
}

export default function TemplateVersions() {
  const template = useTemplate();
  const mayUpdate = useMayUpdate(template);
  const versions = useQuery(versionsQuery(template.id));
  const [archived, setArchived] = useState(false);
  const [promoting, setPromoting] = useState<TemplateVersion>();
  const [archivingFailed, setArchivingFailed] = useState(false);
  const go = useGo();
  const now = useNow(60_000);
  useTitle('Versions', nameOf(template));
  const refetch = ['GET /templates/{template}/versions'] as const;
  const archive = useChange(
    ({ id, archived: was }: TemplateVersion) =>
      was
        ? call('POST /templateversions/{templateversion}/unarchive', { params: { templateversion: id } })
        : call('POST /templateversions/{templateversion}/archive', { params: { templateversion: id } }),
    {
      refetch,
      onSuccess: (_, { name, archived: was }) => toast({ title: `${was ? 'Restored' : 'Archived'} ${name}.` }),
    },
  );
  const all = versions.data?.toReversed();
  const shown = all?.filter((version) => archived || !version.archived);
  const hidden = all?.some((version) => version.archived) ?? false;
  const failed =
    all?.filter(({ job, archived: is }) => !is && (job.status === 'failed' || job.status === 'canceled')) ?? [];
  const before = (version: TemplateVersion) => all?.[all.indexOf(version) + 1];
  const columns: Column<TemplateVersion>[] = [
    {
      name: 'Version',
      width: 'minmax(0,3fr)',
      cell: (version) => (
        <div className="min-w-0">
          <div className="flex min-w-0 items-center gap-2">
            <RowLink to={paths.templateVersion(template, version.name)} className="truncate font-medium">
              {version.name}
            </RowLink>
            {version.id === template.active_version_id && <Badge tone="good">Active</Badge>}
            {version.archived && <Badge>Archived</Badge>}
          </div>
          {version.message && <div className="truncate text-muted text-sm">{version.message}</div>}
        </div>
      ),
    },
    { name: 'Import', width: 'minmax(0,7rem)', cell: ({ job }) => <ImportStatus job={job} /> },
    {
      name: 'Created by',
      width: 'minmax(0,10rem)',
      wideOnly: true,
      cell: ({ created_by: { username, avatar_url } }) => (
        <span className="flex min-w-0 items-center gap-2 text-muted">
          <Avatar name={username} src={avatar_url} size={20} />
          <span className="truncate">{username}</span>
        </span>
      ),
    },
    {
      name: 'Created',
      width: 'minmax(0,8rem)',
      wideOnly: true,
      cell: ({ created_at }) => (
        <time className="truncate text-muted" dateTime={created_at} title={formatDate(created_at)}>
          {formatRelative(created_at, now)}
        </time>
      ),
    },
    actionsColumn((version) => {
      const active = version.id === template.active_version_id;
      const previous = before(version);
      if (!mayUpdate) return null;
      return (
        <Menu trigger={<IconButton icon={Ellipsis} label={`Actions of ${version.name}`} size="sm" />}>
          {!active && version.job.status === 'succeeded' && !version.archived && (
            <MenuItem icon={CircleCheck} onSelect={() => setPromoting(version)}>
              Make active
            </MenuItem>
          )}
          <MenuItem icon={FilePen} to={paths.templateEditor(template, version.name)}>
            Open in the editor
          </MenuItem>
          {previous && (
            <MenuItem icon={FileDiff} to={paths.templateVersion(template, version.name, { compare: previous.name })}>
              Compare with {previous.name}
            </MenuItem>
          )}
          {!active && (
            <>
              <MenuSeparator />
              <MenuItem icon={version.archived ? ArchiveRestore : Archive} onSelect={() => archive.mutate(version)}>
                {version.archived ? 'Restore' : 'Archive'}
              </MenuItem>
            </>
          )}
        </Menu>
      );
    }),
  ];
  if (versions.isError) return <ErrorView error={versions.error} retry={() => void versions.refetch()} />;
  return (
    <>
      <Section
        title="Versions"
        description="Each upload of the source is a version. Workspaces are built from the active one."
        flush
        actions={
          <>
            {hidden && <Checkbox checked={archived} onChange={setArchived} label="Show archived" />}
            {mayUpdate && failed.length > 1 && (
              <Button size="sm" icon={Archive} onClick={() => setArchivingFailed(true)}>
                Archive failed
              </Button>
            )}
          </>
        }
      >
        <Table
          label="Versions"
          columns={columns}
          rows={shown}
          rowKey={({ id }) => id}
          onRowClick={(version) => go(paths.templateVersion(template, version.name))}
          empty={<EmptyState icon={History} title="All versions are archived" />}
        />
      </Section>
      <PromoteDialog template={template} version={promoting} onClose={() => setPromoting(undefined)} />
      <ConfirmDialog
        open={archivingFailed}
        onClose={() => setArchivingFailed(false)}
        title={`Archive ${failed.length} versions?`}
        action="Archive"
        onConfirm={async () => {
          await call('POST /templates/{template}/versions/archive', { params: { template: template.id }, body: {} });
          await versions.refetch();
        }}
      >
        <p>Versions whose import did not succeed, and that no workspace uses, are hidden. You can restore them.</p>
      </ConfirmDialog>
    </>
  );
}
