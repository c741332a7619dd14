import type { TemplateExample } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Blocks, SearchX, Upload } from 'lucide-react';
import { useState } from 'react';
import { Avatar } from '../../../ui/avatar.tsx';
import { Button, LinkButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { Page, Section } from '../../../ui/page.tsx';
import { SearchInput } from '../../../ui/search-input.tsx';
import { EmptyState, QueryView, Skeleton } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useSearchParams } from '../../../util/route.ts';
import { templatesQuery } from '../../workspaces/queries.ts';
import { examplesQuery, useTemplateOrganizations } from '../data.ts';
import { CARD, Suggestion, UseButton } from './suggestion.tsx';

const GRID = 'grid gap-4 sm:grid-cols-2 lg:grid-cols-3';

/** The templates that come with the server. While there is no template, the first of them is the suggestion. */
export default function Starters() {
  const [{ tag }, setSearch] = useSearchParams();
  const [text, setText] = useState('');
  const examples = useQuery(examplesQuery);
  const templates = useQuery(templatesQuery);
  const mayCreate = (useTemplateOrganizations()?.length ?? 0) > 0;
  const isFirst = templates.data?.length === 0;
  const matches = (example: TemplateExample) =>
    (!tag || example.tags.includes(tag)) &&
    `${example.name} ${example.description} ${example.tags.join(' ')}`.toLowerCase().includes(text.toLowerCase());
  return (
    <Page
      title="Starter templates"
      description={
        isFirst
          ? 'A template describes workspaces. Choose one to start with, and change it to what you need.'
          : 'Start from a working template and change it to what you need.'
      }
      actions={
        <>
          <LinkButton to={paths.templateBuilder()} icon={Blocks}>
            Template builder
          </LinkButton>
          <LinkButton to={paths.newTemplate()} icon={Upload}>
            Upload your own
          </LinkButton>
        </>
      }
    >
      <QueryView
        query={examples}
        loading={
          <div className={GRID}>
            {[1, 2, 3, 4, 5, 6].map((at) => (
              <Skeleton key={at} className="h-38" />
            ))}
          </div>
        }
      >
        {(all) => {
          const suggestion = isFirst && mayCreate && !tag && text === '' ? all[0] : undefined;
          const shown = all.filter((example) => example !== suggestion && matches(example));
          const tags = filterTags(all, tag);
          return (
            <>
              {suggestion && <Suggestion example={suggestion} />}
              <div className="flex flex-wrap items-center gap-2">
                <div className="flex w-72 max-w-full">
                  <SearchInput label="Search starter templates" placeholder="Search" value={text} onChange={setText} />
                </div>
                {tags.map((each) => (
                  <Button
                    key={each}
                    size="sm"
                    look={each === tag ? 'default' : 'ghost'}
                    aria-pressed={each === tag}
                    onClick={() => setSearch({ tag: each === tag ? undefined : each })}
                  >
                    {each}
                  </Button>
                ))}
              </div>
              {shown.length === 0 ? (
                <Section>
                  <EmptyState icon={SearchX} title="No starter template matches" />
                </Section>
              ) : (
                <ul className={GRID}>
                  {shown.map((example) => (
                    <Card key={example.id} example={example} mayCreate={mayCreate} />
                  ))}
                </ul>
              )}
            </>
          );
        }}
      </QueryView>
    </Page>
  );
}

/** The tags that several starter templates have, and the one that is chosen. */
const filterTags = (examples: readonly TemplateExample[], chosen: string | undefined): string[] => {
  const counts = new Map<string, number>();
  for (const one of examples.flatMap(({ tags }) => tags)) counts.set(one, (counts.get(one) ?? 0) + 1);
  return [...counts.keys()].filter((one) => counts.get(one)! > 1 || one === chosen).sort();
};

function Card({ example, mayCreate }: { example: TemplateExample; mayCreate: boolean }) {
  return (
    <li
      className={cx(
        CARD,
        'flex flex-col gap-3 border-line p-4 focus-within:border-line-strong hover:border-line-strong',
      )}
    >
      <div className="flex items-center gap-3">
        <Avatar name={example.name} src={example.icon} size={36} square />
        <Link
          to={paths.starterTemplate(example.id)}
          plain
          className="min-w-0 break-words font-semibold after:absolute after:inset-0 after:rounded-lg"
        >
          {example.name}
        </Link>
      </div>
      <p className="flex-1 text-muted">{example.description}</p>
      <div className="flex min-h-7 items-center justify-between gap-3">
        <div className="min-w-0 truncate text-muted text-sm">{example.tags.join(' · ')}</div>
        {mayCreate && <UseButton example={example} />}
      </div>
    </li>
  );
}
