import { Search, X } from 'lucide-react';
import type { ComponentPropsWithRef } from 'react';
import { IconButton } from './button.tsx';
import { Input } from './field.tsx';

/** A search field whose value belongs to the caller. */
export function SearchInput({
  value,
  onChange,
  label,
  ...rest
}: Omit<ComponentPropsWithRef<'input'>, 'value' | 'onChange'> & {
  value: string;
  onChange: (value: string) => void;
  label: string;
}) {
  return (
    <div className="relative min-w-0 flex-1">
      <Search
        size={15}
        aria-hidden="true"
        className="-translate-y-1/2 pointer-events-none absolute top-1/2 left-2.5 text-muted"
      />
      <Input
        type="search"
        aria-label={label}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        {...rest}
        className="pr-8 pl-8 [&::-webkit-search-cancel-button]:hidden"
      />
      {value !== '' && (
        <div className="absolute top-0.5 right-0.5">
          <IconButton icon={X} size="sm" label="Clear" onClick={() => onChange('')} />
        </div>
      )}
    </div>
  );
}
