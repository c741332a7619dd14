import type { UseQueryResult } from '@tanstack/react-query';
import { Check } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { Button } from './button.tsx';
import { Dialog } from './dialog.tsx';
import { SearchInput } from './search-input.tsx';
import { QueryView, SkeletonLines } from './states.tsx';

/** Adds some of many things, one after the other. The caller finds those that match the search. */
export function PickDialog<T>({
  title,
  label,
  placeholder,
  search,
  onSearch,
  found,
  keyOf,
  nameOf,
  cell,
  isAdded,
  added,
  onAdd,
  empty,
  onClose,
}: {
  title: string;
  /** What the list contains. */
  label: string;
  placeholder: string;
  search: string;
  onSearch: (text: string) => void;
  found: UseQueryResult<readonly T[]>;
  keyOf: (item: T) => string;
  nameOf: (item: T) => string;
  cell: (item: T) => ReactNode;
  isAdded: (item: T) => boolean;
  /** What an item shows that is added. */
  added: string;
  onAdd: (item: T) => Promise<unknown>;
  empty: ReactNode;
  onClose: () => void;
}) {
  const [pending, setPending] = useState<string>();
  const add = async (item: T) => {
    setPending(keyOf(item));
    await onAdd(item).catch(() => {});
    setPending(undefined);
  };
  return (
    <Dialog open onClose={onClose} title={title} footer={<Button onClick={onClose}>Done</Button>}>
      <div className="flex h-96 max-h-[60dvh] flex-col gap-3">
        <div className="flex">
          <SearchInput label={placeholder} placeholder={placeholder} value={search} onChange={onSearch} autoFocus />
        </div>
        <QueryView query={found} loading={<SkeletonLines lines={6} />}>
          {(items) =>
            items.length === 0 ? (
              empty
            ) : (
              <ul aria-label={label} className="-mx-2 min-h-0 flex-1 overflow-y-auto">
                {items.map((item) => (
                  <li key={keyOf(item)} className="flex items-center gap-3 rounded-md px-2 py-1.5 hover:bg-hover">
                    <span className="min-w-0 flex-1">{cell(item)}</span>
                    {isAdded(item) ? (
                      <span className="flex items-center gap-1 text-good text-sm">
                        <Check size={14} aria-hidden="true" />
                        {added}
                      </span>
                    ) : (
                      <Button
                        size="sm"
                        aria-label={`Add ${nameOf(item)}`}
                        pending={pending === keyOf(item)}
                        onClick={() => void add(item)}
                      >
                        Add
                      </Button>
                    )}
                  </li>
                ))}
              </ul>
            )
          }
        </QueryView>
      </div>
    </Dialog>
  );
}
