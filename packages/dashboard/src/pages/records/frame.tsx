import type { UseQueryResult } from '@tanstack/react-query';
import { Download } from 'lucide-react';
import { type ReactNode, useMemo } from 'react';
import { errorText } from '../../api/errors.ts';
import { organizationValues, usersLike } from '../../api/filter-values.ts';
import { useSitePermissions } from '../../api/permissions.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { FilterInput, type FilterKey } from '../../ui/filter-input.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { ErrorView, SkeletonLines } from '../../ui/states.tsx';
import { useSearchParams } from '../../util/route.ts';
import type { FilterSources } from './keys.ts';

const PAGE = 25;

/** The search and the page of a log, from the address. */
export function useRecordQuery() {
  const [{ filter = '', page = '1' }, set] = useSearchParams();
  const number = Math.max(1, Number.parseInt(page, 10) || 1);
  return {
    filter,
    number,
    query: { q: filter, limit: PAGE, offset: (number - 1) * PAGE },
    setFilter: (value: string) => set({ filter: value, page: '' }),
    setPage: (value: number) => set({ page: value === 1 ? '' : String(value) }),
  };
}
type RecordQuery = ReturnType<typeof useRecordQuery>;

/** The page of a log: search, export, entries, paging. */
export function RecordPage<T>({
  title,
  description,
  keys,
  exportPath,
  placeholder,
  search,
  logs,
  entries,
  empty,
  label,
  children,
}: {
  title: string;
  description: string;
  keys: (sources: FilterSources) => FilterKey[];
  /** The route below /api/v2 that answers with JSON lines. */
  exportPath: string;
  placeholder: string;
  search: RecordQuery;
  logs: UseQueryResult<{ count: number; count_cap: number }>;
  /** Of this page. */
  entries: readonly T[];
  /** The state without entries. */
  empty: ReactNode;
  /** The name of the list. */
  label: string;
  /** An entry of the list. */
  children: (entry: T) => ReactNode;
}) {
  const { readUsers } = useSitePermissions();
  const all = useMemo(
    () => keys({ users: async (typed) => (readUsers ? usersLike(typed) : []), organizations: organizationValues }),
    [keys, readUsers],
  );
  const { filter, number, setFilter, setPage } = search;
  const { data, isError, error, refetch } = logs;
  const { count = 0, count_cap: cap = 0 } = data ?? {};
  const shown = entries.length;
  const from = (number - 1) * PAGE + 1;
  // the answer to an earlier filter says nothing about this one
  const nothing = data !== undefined && !logs.isPlaceholderData && filter === '' && shown === 0 && number === 1;
  const more = count >= cap ? `${cap.toLocaleString()} or more` : count.toLocaleString();
  return (
    <Page
      title={title}
      description={description}
      actions={
        !nothing && (
          <a
            className={buttonClass()}
            href={`/api/v2${exportPath}${filter ? `?${new URLSearchParams({ q: filter })}` : ''}`}
            download
          >
            <Download size={15} aria-hidden="true" />
            Export
          </a>
        )
      }
    >
      {!nothing && (
        <div className="flex">
          <FilterInput
            label={`Search the ${title.toLowerCase()}`}
            placeholder={placeholder}
            keys={all}
            value={filter}
            onChange={setFilter}
            error={filter && error ? errorText(error).detail || errorText(error).title : undefined}
          />
        </div>
      )}
      {isError && !filter ? (
        <ErrorView error={error} retry={() => void refetch()} />
      ) : (
        <Section flush>
          {!data && !isError ? (
            <div className="p-4">
              <SkeletonLines lines={PAGE / 2} />
            </div>
          ) : shown === 0 ? (
            empty
          ) : (
            <ul aria-label={label}>{entries.map(children)}</ul>
          )}
        </Section>
      )}
      {count > 0 && (
        <div className="flex flex-wrap items-center gap-3 text-muted text-sm">
          <span className="flex-1" role="status">
            {from.toLocaleString()} to {(from - 1 + shown).toLocaleString()} of {more}
          </span>
          {(count > PAGE || number > 1) && (
            <>
              <Button size="sm" disabled={number === 1} onClick={() => setPage(number - 1)}>
                Previous
              </Button>
              <Button
                size="sm"
                disabled={count < cap ? number * PAGE >= count : shown < PAGE}
                onClick={() => setPage(number + 1)}
              >
                Next
              </Button>
            </>
          )}
        </div>
      )}
    </Page>
  );
}

/** The program that a client names, without its details. */
export function programOf(userAgent: string | undefined): string {
  const text = userAgent ?? '';
  for (const [pattern, name] of PROGRAMS) if (pattern.test(text)) return name;
  return text.split(/[\s/]/)[0] ?? '';
}
const PROGRAMS: readonly (readonly [RegExp, string])[] = [
  [/Edg\//, 'Edge'],
  [/Firefox\//, 'Firefox'],
  [/Chrom(?:e|ium)\//, 'Chrome'],
  [/Safari\//, 'Safari'],
  [/Go-http-client|coder-cli|^coder\b/i, 'coder command'],
];
