import { queryOptions, useQuery } from '@tanstack/react-query';
import { useLocation } from '@tanstack/react-router';
import { BookOpen, Download, SearchX } from 'lucide-react';
import { useDeferredValue, useEffect, useState } from 'react';
import { meQuery } from '../../../api/me.ts';
import { buttonClass, LinkButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { CodeBlock } from '../../../ui/copy.tsx';
import { Link } from '../../../ui/link.tsx';
import { PageHeader, Section, useTitle } from '../../../ui/page.tsx';
import { SearchInput } from '../../../ui/search-input.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { type ApiDocument, type Operation, operationsOf, searchOperations } from './document.ts';
import { Method, OperationView } from './operation.tsx';

const DOCUMENT = '/api/v2/openapi.json';

const documentQuery = queryOptions({
  queryKey: ['api document'],
  async queryFn() {
    const answer = await fetch(DOCUMENT);
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    const document = (await answer.json()) as ApiDocument;
    return { document, operations: operationsOf(document) };
  },
  staleTime: Number.POSITIVE_INFINITY,
});

/** The reference of the API, readable without an account. With a session, it can send requests. */
export default function ApiReferencePage() {
  useTitle('API reference');
  const loaded = useQuery(documentQuery);
  const me = useQuery({ ...meQuery, retry: false });
  return (
    <div className="flex min-h-dvh flex-col">
      <header className="sticky top-0 z-30 flex h-13 items-center gap-3 border-line border-b bg-page/95 px-4 backdrop-blur-sm sm:px-6">
        <Link to={paths.workspaces()} plain className="flex items-center gap-2 font-semibold text-lg">
          <img src="/favicon.svg" alt="" width={24} height={24} />
          <span className="max-sm:sr-only">Ropewalk</span>
        </Link>
        <span className="font-medium text-muted">API reference</span>
        <div className="flex-1" />
        <a href={DOCUMENT} download="openapi.json" className={buttonClass()}>
          <Download size={15} aria-hidden="true" />
          <span className="max-sm:sr-only">OpenAPI document</span>
        </a>
        {me.data ? (
          <LinkButton to={paths.workspaces()}>Dashboard</LinkButton>
        ) : (
          me.isError && <LinkButton to={paths.login(paths.apiReference())}>Sign in</LinkButton>
        )}
      </header>
      <QueryView
        query={loaded}
        loading={
          <main className="mx-auto w-full max-w-7xl px-6 py-8">
            <SkeletonLines lines={12} />
          </main>
        }
      >
        {({ document, operations }) => <Reference document={document} operations={operations} />}
      </QueryView>
    </div>
  );
}

function Reference({ document, operations }: { document: ApiDocument; operations: readonly Operation[] }) {
  const { hash } = useLocation();
  const [search, setSearch] = useState('');
  const found = searchOperations(operations, useDeferredValue(search));
  const operation = operations.find(({ id }) => id === decodeURIComponent(hash.replace(/^#/, '')));
  useEffect(() => {
    if (operation) window.scrollTo({ top: 0 });
  }, [operation]);
  return (
    <div className="mx-auto flex w-full max-w-[96rem] flex-1 flex-col md:flex-row">
      <div className="shrink-0 border-line max-md:border-b md:w-80 md:border-r">
        <div className="flex flex-col gap-3 p-4 md:sticky md:top-13 md:h-[calc(100dvh-3.25rem)]">
          <div className="flex">
            <SearchInput
              label="Find an operation"
              placeholder="Find an operation…"
              value={search}
              onChange={setSearch}
            />
          </div>
          <nav
            aria-label="Operations"
            className={cx('min-h-0 flex-1 overflow-y-auto max-md:max-h-64', operation && !search && 'max-md:hidden')}
          >
            {found.length === 0 && (
              <EmptyState icon={SearchX} title="No operation matches">
                Search by method, path or subject.
              </EmptyState>
            )}
            {[...Map.groupBy(found, ({ tag }) => tag)].map(([tag, members]) => (
              <div key={tag} className="mb-3">
                <h2 className="px-2 py-1 font-medium text-muted text-xs">{tag}</h2>
                {members.map(({ id, method, path }) => (
                  <Link
                    key={id}
                    to={paths.apiReference(id)}
                    plain
                    aria-current={id === operation?.id ? 'page' : undefined}
                    onClick={() => setSearch('')}
                    className={cx(
                      'flex items-start gap-2 rounded-md px-2 py-1',
                      id === operation?.id ? 'bg-active' : 'hover:bg-hover',
                    )}
                  >
                    <span className="w-14 shrink-0">
                      <Method method={method} />
                    </span>
                    <span className="min-w-0 break-all font-mono text-xs leading-5">{path}</span>
                  </Link>
                ))}
              </div>
            ))}
          </nav>
        </div>
      </div>
      <main className="min-w-0 flex-1 px-4 py-6 sm:px-8">
        {operation && <h1 className="sr-only">API reference</h1>}
        {operation ? (
          <OperationView key={operation.id} document={document} operation={operation} />
        ) : (
          <Introduction document={document} count={operations.length} />
        )}
      </main>
    </div>
  );
}

function Introduction({ document, count }: { document: ApiDocument; count: number }) {
  return (
    <div className="flex max-w-3xl flex-col gap-5">
      <PageHeader
        title={<span className="flex items-center gap-2">{document.info.title}</span>}
        description={`Version ${document.info.version}, ${count} operations. Choose one to see its shape and to try it.`}
      />
      <Section title="Authentication">
        <p>
          Create a token in <Link to={paths.settings('tokens')}>your settings</Link>, and send it in the header{' '}
          <code className="font-mono text-sm">Coder-Session-Token</code>.
        </p>
        <CodeBlock
          code={`export CODER_SESSION_TOKEN=...\ncurl -H "Coder-Session-Token: $CODER_SESSION_TOKEN" ${location.origin}/api/v2/users/me`}
          label="Copy the commands"
        />
      </Section>
      <Section title="Errors">
        <p>
          An answer with a status from 400 has a <code className="font-mono text-sm">message</code> for people, often a{' '}
          <code className="font-mono text-sm">detail</code>, and <code className="font-mono text-sm">validations</code>{' '}
          that name the fields of the request.
        </p>
      </Section>
      <div className="flex items-center gap-2 text-muted text-sm md:hidden">
        <BookOpen size={15} aria-hidden="true" />
        The operations are listed above.
      </div>
    </div>
  );
}
