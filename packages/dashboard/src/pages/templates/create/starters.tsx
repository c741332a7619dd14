import type { TemplateExample } from '@platform/contract';
import { useQuery } from '@tanstack/react-query';
import { SearchX, Upload } from 'lucide-react';
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
import { examplesQuery } from '../data.ts';

const GRID = 'grid gap-4 sm:grid-cols-2 lg:grid-cols-3';

/** The templates that come with the server. */
export default function Starters() {
  const [{ tag }, setSearch] = useSearchParams();
  const [text, setText] = useState('');
  const examples = useQuery(examplesQuery);
  const matches = (example: TemplateExample) =>
    (!tag || example.tags.includes(tag)) &&
    `${example.name} ${example.description} ${example.tags.join(' ')}`.toLowerCase().includes(text.toLowerCase());
  return (
    <Page
      title="Starter templates"
      description="Start from a working template and change it to what you need."
      actions={
        <LinkButton to={paths.newTemplate()} icon={Upload}>
          Upload your own
        </LinkButton>
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
          const shown = all.filter(matches);
          const tags = [...new Set(all.flatMap((example) => example.tags))].sort();
          return (
            <>
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
                    <Card key={example.id} example={example} />
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

function Card({ example }: { example: TemplateExample }) {
  return (
    <li
      className={cx(
        'relative flex flex-col gap-3 rounded-lg border border-line bg-surface p-4 transition-colors',
        'focus-within:border-line-strong hover:border-line-strong',
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
      <div className="text-muted text-sm">{example.tags.join(' · ')}</div>
    </li>
  );
}
