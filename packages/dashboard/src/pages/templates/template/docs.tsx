import { useQuery } from '@tanstack/react-query';
import { BookOpenText } from 'lucide-react';
import { LinkButton } from '../../../ui/button.tsx';
import { Link } from '../../../ui/link.tsx';
import { Markdown } from '../../../ui/markdown.tsx';
import { Facts, Section, useTitle } from '../../../ui/page.tsx';
import { EmptyState, QueryView, Skeleton, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDate, formatDuration, formatRelative, useNow } from '../../../util/time.ts';
import { nameOf, useMayUpdate, useTemplate, versionQuery, withoutFrontMatter } from '../data.ts';
import { ResourceSummary } from './resource-list.tsx';

/** The README of the active version, and the facts of the template. */
export default function TemplateDocs() {
  const template = useTemplate();
  const mayUpdate = useMayUpdate(template);
  const version = useQuery(versionQuery(template.active_version_id));
  const now = useNow(60_000);
  useTitle(nameOf(template));
  const users = template.active_user_count;
  const start = template.build_time_stats['start'];
  return (
    <div className="grid gap-5 lg:grid-cols-[minmax(0,1fr)_20rem]">
      <Section>
        <QueryView query={version} loading={<SkeletonLines lines={9} />}>
          {({ readme, name }) => {
            const text = withoutFrontMatter(readme);
            return text ? (
              <Markdown text={text} />
            ) : (
              <EmptyState
                icon={BookOpenText}
                title="This template has no README"
                action={
                  mayUpdate && (
                    <LinkButton to={paths.templateEditor(template, name)}>Add a README.md in the editor</LinkButton>
                  )
                }
              >
                Describe in a README what the template is for and how to use it.
              </EmptyState>
            );
          }}
        </QueryView>
      </Section>
      <div className="flex flex-col gap-5">
        <Section title="About">
          {template.description && <p className="break-words">{template.description}</p>}
          <Facts
            facts={[
              ['Used by', users === 0 ? 'Nobody yet' : users === 1 ? '1 person' : `${users} people`],
              [
                'Start time',
                start?.P50 ? <StartTime key="start" p50={start.P50} p95={start.P95 ?? start.P50} /> : 'No builds yet',
              ],
              [
                'Version',
                version.data ? (
                  <Link key="version" to={paths.templateVersion(template, version.data.name)} className="wrap-anywhere">
                    {version.data.name}
                  </Link>
                ) : (
                  <Skeleton key="version" className="w-24" />
                ),
              ],
              [
                'Updated',
                <time key="updated" dateTime={template.updated_at} title={formatDate(template.updated_at)}>
                  {formatRelative(template.updated_at, now)}
                </time>,
              ],
              ['Created by', template.created_by_name],
            ]}
          />
        </Section>
        <Section title="A workspace has" flush>
          <ResourceSummary versionId={template.active_version_id} />
        </Section>
      </div>
    </div>
  );
}

function StartTime({ p50, p95 }: { p50: number; p95: number }) {
  return (
    <span title="Half of the recent starts took less than the first time, 95% less than the second.">
      {formatDuration(p50)}
      {p95 > p50 * 1.1 && <span className="text-muted">, up to {formatDuration(p95)}</span>}
    </span>
  );
}
