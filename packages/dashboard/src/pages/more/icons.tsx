import { useQuery } from '@tanstack/react-query';
import { Image } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { iconsMatching, iconsQuery } from '../../api/icons.ts';
import { copyText } from '../../ui/copy.tsx';
import { ExternalLink } from '../../ui/link.tsx';
import { Page } from '../../ui/page.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';

/** The icons that templates can name. */
export default function IconsPage() {
  const icons = useQuery(iconsQuery);
  const [search, setSearch] = useState('');
  const wanted = useDeferredValue(search);
  return (
    <Page
      title="Icons"
      description="Templates, apps and organizations can use these icons. Choose one to copy its path."
    >
      <div className="flex">
        <SearchInput label="Find an icon" placeholder="Find an icon…" value={search} onChange={setSearch} autoFocus />
      </div>
      <QueryView query={icons}>
        {(all) => {
          const shown = iconsMatching(all, wanted);
          if (shown.length === 0) {
            return (
              <EmptyState icon={Image} title="No icon matches">
                A template can also use the URL of any image.
              </EmptyState>
            );
          }
          return (
            <ul aria-label="Icons" className="grid grid-cols-[repeat(auto-fill,minmax(7rem,1fr))] gap-2">
              {shown.map(({ name, url, title }) => (
                <li key={name}>
                  <button
                    type="button"
                    title={url}
                    onClick={async () => (await copyText(url)) && toast({ title: `${url} was copied.` })}
                    className="flex w-full flex-col items-center gap-2 rounded-lg border border-line bg-surface px-2 py-4 hover:bg-hover"
                  >
                    <img src={url} alt="" width={32} height={32} loading="lazy" className="size-8 object-contain" />
                    <span className="w-full truncate text-center text-muted text-sm">{title || name}</span>
                  </button>
                </li>
              ))}
            </ul>
          );
        }}
      </QueryView>
      <p className="text-muted text-sm">
        The emojis below /emojis are graphics of{' '}
        <ExternalLink href="https://github.com/jdecked/twemoji">Twemoji</ExternalLink>, licensed under{' '}
        <ExternalLink href="https://creativecommons.org/licenses/by/4.0/">CC-BY 4.0</ExternalLink>. Logos belong to
        their owners.
      </p>
    </Page>
  );
}
