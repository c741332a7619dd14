import type { Template, TemplateVersion } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Lock } from 'lucide-react';
import { useRef } from 'react';
import { templatePermissions } from '../../../api/permissions.ts';
import { LinkButton } from '../../../ui/button.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Page, Section, useTitle } from '../../../ui/page.tsx';
import { EmptyState, ErrorView, SkeletonLines } from '../../../ui/states.tsx';
import { useNarrow } from '../../../ui/use-narrow.ts';
import { paths } from '../../../util/paths.ts';
import { useRouteParams, useSearchParams } from '../../../util/route.ts';
import { filesQuery, nameOf, templateQuery, versionByNameQuery } from '../data.ts';
import { SourceView } from '../files/source-view.tsx';
import type { TarFile } from '../files/tar.ts';
import { useCanonicalAddress } from '../template/canonical-address.ts';
import { Workbench } from './workbench.tsx';

/** Edits the source of a template, starting from one of its versions. */
export default function EditorPage() {
  const {
    organization,
    template: name,
    version: versionName,
  } = useRouteParams<'organization' | 'template' | 'version'>();
  const template = useQuery(templateQuery(organization, name));
  useCanonicalAddress(template.data);
  const id = template.data?.id ?? '';
  const may = useQuery({ ...templatePermissions(id), enabled: id !== '' });
  // builds of this editor change the version in the address, but not what is edited
  const started = useRef(versionName);
  const own = useRef(new Set([versionName]));
  if (!own.current.has(versionName)) {
    started.current = versionName;
    own.current = new Set([versionName]);
  }
  const version = useQuery({ ...versionByNameQuery(id, started.current), enabled: id !== '' });
  const fileId = version.data?.job.file_id ?? '';
  const files = useQuery({ ...filesQuery(fileId), enabled: fileId !== '' && (may.data?.update ?? false) });
  const narrow = useNarrow();
  useTitle('Edit', template.data && nameOf(template.data));
  if (may.data?.update === false) {
    return (
      <EmptyState
        isPage
        icon={Lock}
        title="You may not change this template"
        action={template.data && <LinkButton to={paths.template(template.data)}>Show the template</LinkButton>}
      >
        Ask a template administrator of the organization.
      </EmptyState>
    );
  }
  const error = template.error ?? may.error ?? version.error ?? files.error;
  if (error)
    return (
      <ErrorView
        error={error}
        retry={() => location.reload()}
        isPage
        notFound={
          template.data
            ? {
                title: 'Version not found',
                to: paths.templateVersions(template.data),
                all: 'All versions',
              }
            : { title: 'Template not found', to: paths.templates(), all: 'All templates' }
        }
      />
    );
  if (!template.data || !version.data || !files.data) {
    return (
      <div className="p-6">
        <SkeletonLines lines={9} />
      </div>
    );
  }
  if (narrow) return <ReadOnly template={template.data} version={version.data as TemplateVersion} files={files.data} />;
  return (
    <Workbench
      key={`${id} ${started.current}`}
      template={template.data}
      start={version.data as TemplateVersion}
      files={files.data}
      onVersion={(next) => own.current.add(next)}
    />
  );
}

/** Phones show the source. */
function ReadOnly({
  template,
  version,
  files,
}: {
  template: Template;
  version: TemplateVersion;
  files: readonly TarFile[];
}) {
  const [{ file }, setSearch] = useSearchParams();
  return (
    <Page
      title={nameOf(template)}
      description={version.name}
      actions={<LinkButton to={paths.templateVersion(template, version.name)}>Show the version</LinkButton>}
    >
      <Notice
        title="This window is too narrow to edit"
        detail="Open this page in a wider window to change the source."
      />
      <Section flush>
        <SourceView files={files} selected={file} onSelect={(path) => setSearch({ file: path })} />
      </Section>
    </Page>
  );
}
