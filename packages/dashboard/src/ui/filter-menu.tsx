import { Check, ChevronDown } from 'lucide-react';
import { useEffect, useState } from 'react';
import { Button } from './button.tsx';
import type { FilterKey, FilterValue } from './filter-input.tsx';
import { filterValue, withFilterValue } from './filter-tokens.ts';
import { Menu, MenuItem, MenuSeparator } from './menu.tsx';

/** A menu with the values of one key of a search text. Choosing one writes its term into the text. */
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
  const chosen = filterValue(filter, of.key) || undefined;
  return (
    <Menu
      align="start"
      trigger={
        <Button>
          <span className="max-w-32 truncate">{chosen ?? name}</span>
          {chosen !== undefined && <span className="sr-only"> ({name})</span>}
          <ChevronDown size={14} aria-hidden="true" className="text-muted" />
        </Button>
      }
    >
      <Values of={of} chosen={chosen} onChoose={(value) => onChange(withFilterValue(filter, of.key, value))} />
    </Menu>
  );
}

/** The entries, which are asked for when the menu opens. */
function Values({
  of,
  chosen,
  onChoose,
}: {
  of: FilterKey;
  chosen: string | undefined;
  onChoose: (value: string | undefined) => void;
}) {
  const [values, setValues] = useState<readonly FilterValue[]>([]);
  useEffect(() => {
    let current = true;
    Promise.resolve(of.values('')).then(
      (found) => current && setValues(found),
      () => {}, // the field for the search still takes any value
    );
    return () => {
      current = false;
    };
  }, [of]);
  return (
    <>
      {values.map(({ value, help }) => (
        <MenuItem key={value} onSelect={() => onChoose(value)}>
          <span className="flex-1">{value}</span>
          {help && help !== value && <span className="truncate pl-4 text-muted text-sm">{help}</span>}
          {value === chosen && <Check size={14} aria-hidden="true" />}
          {value === chosen && <span className="sr-only">(chosen)</span>}
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
