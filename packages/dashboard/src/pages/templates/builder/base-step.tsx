import type { TemplateBuilderBase, TemplateBuilderBasesResponse } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import { useQuery } from '@tanstack/react-query';
import { SearchX } from 'lucide-react';
import { useState } from 'react';
import { Avatar } from '../../../ui/avatar.tsx';
import { cx } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Section } from '../../../ui/page.tsx';
import { SearchInput } from '../../../ui/search-input.tsx';
import { EmptyState } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { templatesQuery } from '../../workspaces/queries.ts';
import { Suggestion } from '../create/suggestion.tsx';
import { examplesQuery } from '../data.ts';

const SYSTEMS: Readonly<Record<string, string>> = { linux: 'Linux', windows: 'Windows', macos: 'macOS' };

/** Chooses the base: where workspaces run. */
export function BaseStep({
  bases: { bases, problems },
  chosen,
}: {
  bases: TemplateBuilderBasesResponse;
  chosen: string | undefined;
}) {
  const [text, setText] = useState('');
  const examples = useQuery(examplesQuery).data;
  const isFirst = useQuery(templatesQuery).data?.length === 0;
  const suggestion = isFirst && text === '' ? examples?.[0] : undefined;
  const shown = bases.filter(({ name, description }) =>
    `${name} ${description}`.toLowerCase().includes(text.toLowerCase()),
  );
  return (
    <>
      {problems.length > 0 && (
        <Notice tone="warn" title="Some bases and modules of this server's source cannot be used">
          <ul className="list-disc pl-5 text-text">
            {problems.map((problem) => (
              <li key={problem} className="wrap-anywhere">
                {problem}
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {suggestion && <Suggestion example={suggestion} />}
      <div className="flex w-72 max-w-full">
        <SearchInput label="Search bases" placeholder="Search" value={text} onChange={setText} />
      </div>
      {shown.length === 0 ? (
        <Section>
          <EmptyState icon={SearchX} title="No base matches" />
        </Section>
      ) : (
        <ul className="grid gap-4 sm:grid-cols-2 lg:grid-cols-3">
          {shown.map((base) => (
            <Card key={base.id} base={base} chosen={base.id === chosen} />
          ))}
        </ul>
      )}
    </>
  );
}

function Card({ base: { id, name, icon, description, os }, chosen }: { base: TemplateBuilderBase; chosen: boolean }) {
  return (
    <li
      className={cx(
        'relative flex flex-col gap-3 rounded-lg border bg-surface p-4 transition-colors',
        chosen ? 'border-accent' : 'border-line focus-within:border-line-strong hover:border-line-strong',
      )}
    >
      <div className="flex items-center gap-3">
        <Avatar name={name} src={icon} size={36} square />
        <Link
          to={paths.templateBuilder({ step: 'modules', base: id })}
          plain
          className="min-w-0 break-words font-semibold after:absolute after:inset-0 after:rounded-lg"
        >
          {name}
        </Link>
      </div>
      <p className="flex-1 text-muted">{description}</p>
      <div className="text-muted text-sm">{ownValue(SYSTEMS, os) ?? os}</div>
    </li>
  );
}
