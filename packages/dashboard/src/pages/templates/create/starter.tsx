import { currentStarterId } from '@ropewalk/rules/starter-ids';
import { useQuery } from '@tanstack/react-query';
import { Boxes } from 'lucide-react';
import { Avatar } from '../../../ui/avatar.tsx';
import { LinkButton } from '../../../ui/button.tsx';
import { Link } from '../../../ui/link.tsx';
import { Markdown } from '../../../ui/markdown.tsx';
import { Section, useTitle } from '../../../ui/page.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useRouteParams } from '../../../util/route.ts';
import { examplesQuery, useTemplateOrganizations } from '../data.ts';

/** What a starter template does, and the way to use it. */
export default function Starter() {
  const id = currentStarterId(useRouteParams<'id'>().id);
  const mayCreate = (useTemplateOrganizations()?.length ?? 0) > 0;
  const examples = useQuery(examplesQuery);
  const example = examples.data?.find((each) => each.id === id);
  useTitle(example?.name ?? id);
  return (
    <div className="mx-auto flex w-full max-w-4xl flex-col gap-5 px-4 py-6 sm:px-6">
      <QueryView query={examples} isPage loading={<SkeletonLines lines={9} />}>
        {() =>
          example ? (
            <>
              <header className="flex flex-wrap items-center gap-4">
                <Avatar name={example.name} src={example.icon} size={44} square />
                <div className="min-w-0 flex-1">
                  <div className="text-muted text-sm">
                    <Link to={paths.starterTemplates()} plain className="hover:underline">
                      Starter templates
                    </Link>
                  </div>
                  <h1 className="break-words font-semibold text-2xl tracking-tight">{example.name}</h1>
                </div>
                {mayCreate && (
                  <LinkButton to={paths.newTemplate({ exampleId: example.id })} look="primary">
                    Use this template
                  </LinkButton>
                )}
              </header>
              <Section>
                <Markdown text={example.markdown} />
              </Section>
            </>
          ) : (
            <EmptyState
              isPage
              icon={Boxes}
              title={`Starter template "${id}" not found`}
              action={<LinkButton to={paths.starterTemplates()}>All starter templates</LinkButton>}
            >
              This server has no starter template with this name.
            </EmptyState>
          )
        }
      </QueryView>
    </div>
  );
}
