import { useQuery } from '@tanstack/react-query';
import { Download, FilePen } from 'lucide-react';
import { buttonClass, LinkButton } from '../../../ui/button.tsx';
import { Section, useTitle } from '../../../ui/page.tsx';
import { ErrorView, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useSearchParams } from '../../../util/route.ts';
import { filesQuery, nameOf, useTemplate, versionQuery } from '../data.ts';
import { SourceView } from '../files/source-view.tsx';

/** The source of the active version, read only. */
export default function TemplateFiles() {
  const template = useTemplate();
  const [{ file }, setSearch] = useSearchParams();
  const version = useQuery(versionQuery(template.active_version_id));
  const fileId = version.data?.job.file_id ?? '';
  const files = useQuery({ ...filesQuery(fileId), enabled: fileId !== '' });
  useTitle('Source', nameOf(template));
  if (version.isError) return <ErrorView error={version.error} retry={() => void version.refetch()} />;
  return (
    <Section
      title={version.data ? `Source of ${version.data.name}` : 'Source'}
      flush
      actions={
        version.data && (
          <>
            <a
              className={buttonClass('default', 'sm')}
              href={`/api/v2/files/${fileId}?format=zip`}
              download={`${template.name}-${version.data.name}.zip`}
            >
              <Download size={15} aria-hidden="true" />
              Download
            </a>
            <LinkButton size="sm" icon={FilePen} to={paths.templateEditor(template, version.data.name)}>
              Edit
            </LinkButton>
          </>
        )
      }
    >
      <QueryView
        query={files}
        loading={
          <div className="h-[max(26rem,calc(100dvh-20rem))] p-4">
            <SkeletonLines lines={9} />
          </div>
        }
      >
        {(found) => <SourceView files={found} selected={file} onSelect={(path) => setSearch({ file: path })} />}
      </QueryView>
    </Section>
  );
}
