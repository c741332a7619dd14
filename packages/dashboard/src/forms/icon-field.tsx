import { useQuery } from '@tanstack/react-query';
import { Images } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { iconsMatching, iconsQuery } from '../api/icons.ts';
import { Avatar } from '../ui/avatar.tsx';
import { Button } from '../ui/button.tsx';
import { cx } from '../ui/classes.ts';
import { Field, Input, OutsideField } from '../ui/field.tsx';
import { Popover } from '../ui/popover.tsx';
import { SearchInput } from '../ui/search-input.tsx';
import { QueryView } from '../ui/states.tsx';

/** The icon of something: one of the server's, an emoji of the server, or the address of a picture. */
export function IconField({
  label = 'Icon',
  name,
  value,
  onChange,
  error,
}: {
  label?: string;
  /** The name of the object with the icon. Its first letter stands in for a missing icon. */
  name: string;
  /** A path or a URL, or empty. */
  value: string;
  onChange: (value: string) => void;
  error: string | undefined;
}) {
  return (
    <Field label={label} help="Choose an icon, or enter a path such as /emojis/1f680.png or a URL." error={error}>
      <div className="flex flex-wrap items-center gap-2">
        <Avatar square size={32} name={name || '?'} src={value} />
        <Input className="flex-1 basis-40" value={value} onChange={(event) => onChange(event.target.value)} />
        <IconPicker value={value} onChoose={onChange} />
      </div>
    </Field>
  );
}

/** A button that opens the server's icons. */
export function IconPicker({ value, onChoose }: { value: string; onChoose: (icon: string) => void }) {
  const [open, setOpen] = useState(false);
  return (
    <OutsideField>
      <Popover open={open} onOpenChange={setOpen} trigger={<Button icon={Images}>Choose an icon</Button>}>
        {open && (
          <IconGrid
            value={value}
            onChoose={(icon) => {
              onChoose(icon);
              setOpen(false);
            }}
          />
        )}
      </Popover>
    </OutsideField>
  );
}

/** The server's icons, found by name. */
function IconGrid({ value, onChoose }: { value: string; onChoose: (icon: string) => void }) {
  const icons = useQuery(iconsQuery);
  const [search, setSearch] = useState('');
  const wanted = useDeferredValue(search);
  return (
    <div className="flex flex-col gap-3">
      <SearchInput
        label="Find an icon"
        placeholder="Find an icon…"
        value={search}
        onChange={setSearch}
        autoFocus
        onKeyDown={(event) => {
          const first = icons.data && iconsMatching(icons.data, search)[0];
          if (event.key === 'Enter' && search !== '' && first) onChoose(first.url);
        }}
      />
      <QueryView query={icons}>
        {(all) => {
          const shown = iconsMatching(all, wanted);
          return shown.length === 0 ? (
            <p className="text-muted text-sm" role="status">
              No icon matches. Close this list and enter the address of a picture.
            </p>
          ) : (
            <ul aria-label="Icons" className="-m-1 grid max-h-72 grid-cols-8 gap-1 overflow-y-auto p-1">
              {shown.map(({ name, url, title }) => (
                <li key={name}>
                  <button
                    type="button"
                    title={url}
                    // some have variants with the same title
                    aria-label={title.toLowerCase() === name ? title : `${title} (${name})`}
                    aria-pressed={url === value}
                    onClick={() => onChoose(url)}
                    className={cx(
                      'flex aspect-square w-full items-center justify-center rounded-md border',
                      url === value ? 'border-accent bg-accent-soft' : 'border-transparent hover:bg-hover',
                    )}
                  >
                    <img src={url} alt="" width={24} height={24} loading="lazy" className="size-6 object-contain" />
                  </button>
                </li>
              ))}
            </ul>
          );
        }}
      </QueryView>
    </div>
  );
}
