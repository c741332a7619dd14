import type { Template } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Outlet } from '@tanstack/react-router';
import { Copy, Ellipsis, FilePen, Plus, Settings, Trash2 } from 'lucide-react';
import { Suspense, useState } from 'react';
import { call } from '../../../api/client.ts';
import { organizationsQuery } from '../../../api/me.ts';
import { templatePermissions } from '../../../api/permissions.ts';
import { queryClient } from '../../../api/query.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Badge } from '../../../ui/badge.tsx';
import { IconButton, LinkButton } from '../../../ui/button.tsx';
import { ConfirmDialog } from '../../../ui/dialog.tsx';
import { Link } from '../../../ui/link.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../../ui/menu.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Heading, useTitle } from '../../../ui/page.tsx';
import { QueryView, Skeleton, SkeletonLines } from '../../../ui/states.tsx';
import { LinkTabs } from '../../../ui/tabs.tsx';
import { toast } from '../../../ui/toast.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo, useRouteParams } from '../../../util/route.ts';
import { useBarrier } from '../barriers.ts';
import { nameOf, poolsQuery, templateQuery, versionQuery } from '../data.ts';
import { useCanonicalAddress } from './canonical-address.ts';

/** What the pages of one template have in common: its name, its actions, its tabs. */
export default function TemplateLayout() {
  const { organization, template } = useRouteParams<'organization' | 'template'>();
  const query = useQuery(templateQuery(organization, template));
  useCanonicalAddress(query.data);
  return (
    <div className="mx-auto flex w-full max-w-7xl flex-col gap-5 px-4 py-6 sm:px-6">
      <QueryView
        query={query}
        isPage
        notFound={{
          title: 'Template not found',
          to: paths.templates(),
          all: 'All templates',
        }}
        loading={
          <>
            <div className="flex h-13 items-center gap-4">
              <Skeleton className="size-11" />
              <Skeleton className="h-6 w-56" />
            </div>
            <Skeleton className="h-9 w-full" />
            <SkeletonLines lines={6} />
          </>
        }
      >
        {(found) => <Loaded template={found} />}
      </QueryView>
    </div>
  );
}

function Loaded({ template }: { template: Template }) {
  const may = useQuery(templatePermissions(template.id)).data;
  const barrier = useBarrier(template);
  const pools = useQuery({ ...poolsQuery(template.id), enabled: may?.update ?? false }).data?.pools ?? [];
  useTitle(nameOf(template));
  const tabs = [
    { to: paths.templateDocs(template), name: 'Overview' },
    may?.update && { to: paths.templateFiles(template), name: 'Source' },
    { to: paths.templateResources(template), name: 'Resources' },
    { to: paths.templateVersions(template), name: 'Versions' },
    pools.length > 0 && { to: paths.templatePrebuilds(template), name: 'Prebuilds' },
    { to: paths.templateEmbed(template), name: 'Embed' },
    may?.viewInsights && { to: paths.templateInsights(template), name: 'Insights' },
    may?.update && { to: paths.templateSettings(template), name: 'Settings' },
  ].filter((tab) => tab !== false && tab !== undefined);
  return (
    <>
      <Header template={template} may={may} mayCreate={barrier === null} />
      {barrier && <Notice tone={template.deprecated ? 'warn' : 'neutral'} {...barrier} />}
      <LinkTabs label="Template" tabs={tabs} />
      <Suspense fallback={<SkeletonLines lines={6} />}>
        <Outlet />
      </Suspense>
    </>
  );
}

function Header({
  template,
  may,
  mayCreate,
}: {
  template: Template;
  may: { update: boolean; delete: boolean } | undefined;
  /** Whether the person may create workspaces from the template. */
  mayCreate: boolean;
}) {
  const organizations = useQuery(organizationsQuery).data ?? [];
  const active = useQuery({ ...versionQuery(template.active_version_id), enabled: may?.update ?? false }).data;
  const [deleting, setDeleting] = useState(false);
  const go = useGo();
  return (
    <header className="flex flex-wrap items-center gap-x-4 gap-y-3">
      <Avatar name={nameOf(template)} src={template.icon} size={44} square />
      <div className="min-w-0 flex-1">
        <Heading badges={template.deprecated && <Badge tone="warn">Deprecated</Badge>}>{nameOf(template)}</Heading>
        <div className="text-muted">
          {organizations.length > 1 && (
            <>
              <Link
                to={paths.templates(`organization:${template.organization_name}`)}
                plain
                className="hover:underline"
              >
                {template.organization_display_name || template.organization_name}
              </Link>
              <span aria-hidden="true"> / </span>
            </>
          )}
          <span className="font-mono text-sm">{template.name}</span>
        </div>
      </div>
      <div className="flex items-center gap-2">
        {may?.update && active && (
          <LinkButton to={paths.templateEditor(template, active.name)} icon={FilePen}>
            Edit source
          </LinkButton>
        )}
        {mayCreate && (
          <LinkButton to={paths.createWorkspace(template)} look="primary" icon={Plus}>
            Create workspace
          </LinkButton>
        )}
        {(may?.update || may?.delete) && (
          <Menu trigger={<IconButton icon={Ellipsis} label="More actions" look="default" />}>
            {may.update && (
              <>
                <MenuItem icon={Settings} to={paths.templateSettings(template)}>
                  Settings
                </MenuItem>
                <MenuItem icon={Copy} to={paths.newTemplate({ fromTemplate: template.id })}>
                  Duplicate
                </MenuItem>
              </>
            )}
            {may.update && may.delete && <MenuSeparator />}
            {may.delete && (
              <MenuItem icon={Trash2} danger onSelect={() => setDeleting(true)}>
                Delete
              </MenuItem>
            )}
          </Menu>
        )}
      </div>
      <DeleteTemplate
        template={template}
        open={deleting}
        onClose={() => setDeleting(false)}
        onDeleted={() => go(paths.templates())}
      />
    </header>
  );
}

/** Asks before it deletes a template. */
export function DeleteTemplate({
  template,
  open,
  onClose,
  onDeleted,
}: {
  template: Template;
  open: boolean;
  onClose: () => void;
  onDeleted: () => void;
}) {
  return (
    <ConfirmDialog
      open={open}
      onClose={onClose}
      title="Delete this template?"
      action="Delete template"
      danger
      typeToConfirm={template.name}
      onConfirm={async () => {
        await call('DELETE /templates/{template}', { params: { template: template.id } });
        toast({ title: `Deleted ${nameOf(template)}.` });
        onDeleted();
        await queryClient.invalidateQueries({ queryKey: ['GET /templates'] });
      }}
    >
      <p>
        All versions of <b className="break-words">{nameOf(template)}</b> are deleted with it. Workspaces that use it
        must be deleted first.
      </p>
    </ConfirmDialog>
  );
}
