import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Check, ChevronDown } from 'lucide-react';
import { type KeyboardEvent, useId, useRef, useState } from 'react';
import { errorLine } from '../api/errors.ts';
import { Button } from './button.tsx';
import type { FilterKey, FilterValue } from './filter-input.tsx';
import { filterValue, withFilterValue } from './filter-tokens.ts';
import { Menu, MenuItem, MenuLabel, MenuSeparator } from './menu.tsx';
import { OptionList, useOptionList } from './option-list.tsx';
import { Popover } from './popover.tsx';
import { SearchInput } from './search-input.tsx';
import { SkeletonLines } from './states.tsx';

interface ValuesProps {
  of: FilterKey;
  chosen: string | undefined;
  onChoose: (value: string | undefined) => void;
}

/**
 * A menu with the values of one key of a search text. Choosing one writes its term into the text. A key with more values
 * than it offers without a text gets a field that finds them.
 */
export function FilterMenu({
  name,
  of,
  filter,
  onChange,
}: {
  name: string;
  of: FilterKey;
  /** The search text. */
  filter: string;
  onChange: (filter: string) => void;
}) {
  const [open, setOpen] = useState(false);
  const chosen = filterValue(filter, of.key) || undefined;
  const values: ValuesProps = {
    of,
    chosen,
    onChoose(value) {
      setOpen(false);
      onChange(withFilterValue(filter, of.key, value));
    },
  };
  const trigger = (
    <Button>
      <span className="max-w-32 truncate">{chosen ?? name}</span>
      {chosen !== undefined && <span className="sr-only"> ({name})</span>}
      <ChevronDown size={14} aria-hidden="true" className="text-muted" />
    </Button>
  );
  return of.find === undefined ? (
    <Menu align="start" trigger={trigger}>
      <MenuValues {...values} />
    </Menu>
  ) : (
    <Popover align="start" trigger={trigger} open={open} onOpenChange={setOpen} tight>
      <FoundValues {...values} find={of.find} />
    </Popover>
  );
}

/** The values that match the typed text. They are asked for when the menu opens. */
const useValues = (of: FilterKey, typed: string) =>
  useQuery({
    queryKey: ['filter', of.key, typed],
    queryFn: async () => of.values(typed),
    placeholderData: keepPreviousData,
    // what the key asks has its own cache
    staleTime: 0,
    // the person tries again
    retry: false,
  });

function MenuValues({ of, chosen, onChoose }: ValuesProps) {
  const { data, error, isError, refetch } = useValues(of, '');
  return (
    <>
      {isError && (
        <>
          <MenuLabel>
            <span role="alert">{errorLine(error)}</span>
          </MenuLabel>
          <MenuItem
            onSelect={(event) => {
              // the menu stays open for the values, and has the focus once this entry leaves with the error
              event.preventDefault();
              const menu = (event.currentTarget as HTMLElement).closest<HTMLElement>('[role="menu"]');
              void refetch().then(() => menu?.focus());
            }}
          >
            Try again
          </MenuItem>
        </>
      )}
      {data?.map((each) => (
        <MenuItem key={each.value} onSelect={() => onChoose(each.value)}>
          <Value of={each} chosen={chosen} />
        </MenuItem>
      ))}
      {chosen !== undefined && (
        <>
          <MenuSeparator />
          <MenuItem onSelect={() => onChoose(undefined)}>Any {of.key}</MenuItem>
        </>
      )}
    </>
  );
}

function FoundValues({ of, chosen, onChoose, find }: ValuesProps & { find: string }) {
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState('');
  const wanted = typed.trim().toLowerCase();
  const { data, error, isError, isPlaceholderData, refetch } = useValues(of, wanted);
  const any = chosen !== undefined && typed === '' ? [{ value: '' }] : [];
  // until the answer, only what matches of the one before: Enter must not choose another one
  const found = isPlaceholderData ? data?.filter(({ value }) => value.toLowerCase().includes(wanted)) : data;
  const options: readonly FilterValue[] = found ? [...found, ...any] : [];
  const { active, setActive, setOpen, fieldProps, onKey } = useOptionList(id, options.length, 0);
  const choose = ({ value }: FilterValue) => onChoose(value || undefined);
  const onKeyDown = (event: KeyboardEvent) => {
    // Escape closes the panel
    if (event.key === 'Escape' || onKey(event) || event.key !== 'Enter') return;
    event.preventDefault();
    const option = options[active];
    if (option) choose(option);
  };
  return (
    <>
      <div className="flex">
        <SearchInput
          ref={field}
          {...fieldProps}
          label={find}
          placeholder={find}
          value={typed}
          onChange={(text) => {
            setTyped(text);
            setActive(0);
          }}
          onFocus={() => setOpen(true)}
          onKeyDown={onKeyDown}
        />
      </div>
      {isError ? (
        <div className="flex flex-wrap items-center gap-2 px-2 py-3">
          <span role="alert" className="min-w-0 flex-1 text-muted text-sm">
            {errorLine(error)}
          </span>
          <Button
            size="sm"
            onClick={() => {
              // the button leaves with the error
              field.current?.focus();
              void refetch();
            }}
          >
            Try again
          </Button>
        </div>
      ) : options.length > 0 ? null : !data || isPlaceholderData ? (
        <SkeletonLines lines={3} />
      ) : (
        <div className="px-2 py-3 text-muted text-sm">No {of.key} matches.</div>
      )}
      <OptionList
        id={id}
        label={find}
        inline
        shown={!isError && options.length > 0}
        active={active}
        options={options}
        keyOf={({ value }) => value}
        isSelected={({ value }) => value === chosen}
        onChoose={choose}
        render={(each) =>
          each.value === '' ? (
            `Any ${of.key}`
          ) : (
            <span className="flex items-center gap-2">
              <Value of={each} chosen={chosen} />
            </span>
          )
        }
      />
    </>
  );
}

function Value({ of: { value, help }, chosen }: { of: FilterValue; chosen: string | undefined }) {
  return (
    <>
      <span className="min-w-0 flex-1 truncate">{value}</span>
      {help && help !== value && <span className="truncate pl-4 text-muted text-sm">{help}</span>}
      {value === chosen && <Check size={14} aria-hidden="true" className="shrink-0" />}
      {value === chosen && <span className="sr-only">(chosen)</span>}
    </>
  );
}
