import { useQuery } from '@tanstack/react-query';
import { Section, useTitle } from '../../../ui/page.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { nameOf, resourcesQuery, useTemplate } from '../data.ts';
import { ResourceDetails } from './resource-list.tsx';

export default function TemplateResources() {
  const template = useTemplate();
  useTitle('Resources', nameOf(template));
  return (
    <Section title="Resources of a workspace" description="What the active version creates for each workspace." flush>
      <QueryView
        query={useQuery(resourcesQuery(template.active_version_id))}
        loading={
          <div className="p-4">
            <SkeletonLines lines={6} />
          </div>
        }
      >
        {(resources) => <ResourceDetails resources={resources} />}
      </QueryView>
    </Section>
  );
}
