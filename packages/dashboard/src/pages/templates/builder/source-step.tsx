import type { TemplateBuilderComposeRequest } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { LinkButton } from '../../../ui/button.tsx';
import { Section } from '../../../ui/page.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { useSearchParams } from '../../../util/route.ts';
import { SourceView } from '../files/source-view.tsx';
import { composedQuery } from './queries.ts';

/** Shows the composed source before it is stored. */
export function SourceStep({
  request,
  back,
  next,
}: {
  request: TemplateBuilderComposeRequest;
  back: string;
  next: string;
}) {
  const [{ file }, setSearch] = useSearchParams();
  const composed = useQuery(composedQuery(request));
  return (
    <>
      <Section flush>
        <QueryView
          query={composed}
          loading={
            <div className="h-[max(26rem,calc(100dvh-20rem))] p-4">
              <SkeletonLines lines={9} />
            </div>
          }
        >
          {({ files }) => (
            <SourceView files={files} selected={file ?? 'main.tf'} onSelect={(path) => setSearch({ file: path })} />
          )}
        </QueryView>
      </Section>
      <div className="flex flex-wrap gap-2">
        {composed.data && (
          <LinkButton to={next} look="primary">
            Continue
          </LinkButton>
        )}
        <LinkButton to={back}>Back</LinkButton>
      </div>
    </>
  );
}
