import { type KeyboardEvent, type ReactNode, useId, useState } from 'react';
import { cx } from './classes.ts';
import { Input } from './field.tsx';

export interface ComboboxOption {
  value: string;
  label: ReactNode;
}

/** A choice among many, found by typing. `options` are those that match `typed`, from a server or a list. */
export function Combobox({
  value,
  onChange,
  typed,
  onType,
  options,
  placeholder,
  disabled = false,
}: {
  value: string;
  onChange: (value: string) => void;
  typed: string;
  onType: (typed: string) => void;
  options: readonly ComboboxOption[];
  placeholder?: string;
  disabled?: boolean;
}) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(0);
  const choose = (option: ComboboxOption) => {
    onChange(option.value);
    onType('');
    setOpen(false);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      setOpen(true);
      const step = event.key === 'ArrowDown' ? 1 : -1;
      setActive((at) => (options.length === 0 ? 0 : (at + step + options.length) % options.length));
    } else if (event.key === 'Enter' && open) {
      event.preventDefault();
      const option = options[active];
      if (option) choose(option);
    } else if (event.key === 'Escape' && open) {
      event.stopPropagation();
      setOpen(false);
    }
  };
  const shown = open && options.length > 0;
  return (
    <div className="relative">
      <Input
        role="combobox"
        aria-expanded={shown}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={shown ? `${id}-${active}` : undefined}
        disabled={disabled}
        placeholder={placeholder}
        value={open ? typed : value}
        onFocus={() => setOpen(true)}
        onClick={() => setOpen(true)}
        onBlur={() => {
          setOpen(false);
          onType('');
        }}
        onChange={(event) => {
          setOpen(true);
          setActive(0);
          onType(event.target.value);
        }}
        onKeyDown={onKeyDown}
      />
      <div
        id={`${id}-list`}
        role="listbox"
        aria-label="Options"
        hidden={!shown}
        className="absolute top-full right-0 left-0 z-40 mt-1 max-h-72 overflow-y-auto rounded-lg bg-raised p-1 shadow-float"
      >
        {options.map((option, at) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
          <div
            key={option.value}
            id={`${id}-${at}`}
            role="option"
            aria-selected={option.value === value}
            className={cx('cursor-default rounded-sm px-2 py-1.5', at === active ? 'bg-hover' : 'hover:bg-hover')}
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(option)}
          >
            {option.label}
          </div>
        ))}
      </div>
    </div>
  );
}
