import { useQuery } from '@tanstack/react-query';
import { SearchX } from 'lucide-react';
import { NotFoundPage } from '../../layouts/problems.tsx';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { LinkButton } from '../../ui/button.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useRouteParams, useSearchParams } from '../../util/route.ts';
import { Encryption } from './encryption.tsx';
import { OptionList } from './option-list.tsx';
import { OPTION_PAGES, pageOf, searchOptions } from './options.ts';
import { Providers } from './providers.tsx';
import { configQuery } from './queries.ts';

/** Options in force about one subject. A search finds those of all subjects. */
export default function OptionsPage() {
  const { options: path } = useRouteParams<'options'>();
  const [{ search = '' }, setSearch] = useSearchParams();
  const config = useQuery(configQuery);
  const page = OPTION_PAGES.find((each) => each.path === path);
  if (!page) return <NotFoundPage />;
  return (
    <SidebarPage title={page.name} area="Deployment" description={page.description}>
      {path === 'security' && !search && <Encryption />}
      <div className="flex">
        <SearchInput
          label="Search all options"
          placeholder="Search all options…"
          value={search}
          onChange={(value) => setSearch({ search: value })}
        />
      </div>
      <QueryView query={config} loading={<SkeletonLines lines={12} />}>
        {({ options, config: values }) => {
          if (path === 'external-auth' && !search) return <Providers providers={values.external_auth} />;
          const visible = options.filter(({ hidden }) => !hidden);
          const shown = search ? searchOptions(visible, search) : visible.filter((each) => pageOf(each) === path);
          if (shown.length > 0) return <OptionList options={shown} />;
          return search ? (
            <EmptyState icon={SearchX} title="No option matches">
              Search by name, flag, environment variable or description.
            </EmptyState>
          ) : (
            <EmptyState
              title="Nothing is configured here"
              action={<LinkButton to={paths.deployment()}>Overview</LinkButton>}
            >
              The server has no options about this subject.
            </EmptyState>
          );
        }}
      </QueryView>
    </SidebarPage>
  );
}
