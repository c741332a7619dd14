import { type Dispatch, type KeyboardEvent, type ReactNode, type SetStateAction, useEffect, useState } from 'react';
import { cx } from './classes.ts';

/**
 * The open list and the marked option of a field with role `combobox`. The arrow keys mark an option and Escape closes
 * the list; the field handles the other keys.
 */
export function useOptionList(id: string, count: number, unmarked: 0 | -1) {
  const [open, setOpen] = useState(false);
  const [active, setActive]: [number, Dispatch<SetStateAction<number>>] = useState<number>(unmarked);
  const shown = open && count > 0;
  return {
    open,
    setOpen,
    active,
    setActive,
    shown,
    /** For the field. */
    fieldProps: {
      role: 'combobox',
      'aria-expanded': shown,
      'aria-controls': `${id}-list`,
      'aria-autocomplete': 'list',
      'aria-activedescendant': shown && active >= 0 ? `${id}-${active}` : undefined,
    } as const,
    /** Handles a key. Returns whether it was one of the list's. */
    onKey(event: KeyboardEvent): boolean {
      if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
        event.preventDefault();
        setOpen(true);
        const step = event.key === 'ArrowDown' ? 1 : -1;
        setActive((at) => (count === 0 ? unmarked : (at + step + count) % count));
        return true;
      }
      if (event.key !== 'Escape' || !open) return false;
      event.stopPropagation();
      setOpen(false);
      return true;
    },
  };
}

/** The options below a field. The field keeps the focus and handles the keys. */
export function OptionList<T>({
  id,
  label,
  shown,
  active,
  options,
  keyOf,
  isSelected,
  onChoose,
  render,
  inline = false,
  className,
}: {
  /** Of the field: those of the list and its options begin with it. */
  id: string;
  label: string;
  shown: boolean;
  /** The index of the marked option. */
  active: number;
  options: readonly T[];
  keyOf: (option: T) => string;
  isSelected: (option: T, index: number) => boolean;
  onChoose: (option: T) => void;
  render: (option: T) => ReactNode;
  /** Whether it is a part of a panel, not over what is below the field. */
  inline?: boolean;
  className?: string;
}) {
  useEffect(() => {
    if (shown) document.getElementById(`${id}-${active}`)?.scrollIntoView({ block: 'nearest' });
  }, [id, shown, active]);
  return (
    <div
      id={`${id}-list`}
      role="listbox"
      aria-label={label}
      hidden={!shown}
      // browsers put boxes that scroll into the order of Tab, and this one closes when the field loses the focus
      tabIndex={-1}
      className={cx(
        'max-h-80 overflow-y-auto',
        inline ? 'mt-1.5' : 'absolute top-full right-0 left-0 z-40 mt-1 rounded-lg bg-raised p-1 shadow-float',
        className,
      )}
    >
      {options.map((option, at) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
        <div
          key={keyOf(option)}
          id={`${id}-${at}`}
          role="option"
          aria-selected={isSelected(option, at)}
          className={cx('cursor-default rounded-sm px-2 py-1.5', at === active ? 'bg-active' : 'hover:bg-hover')}
          // the field keeps the focus
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(option)}
        >
          {render(option)}
        </div>
      ))}
    </div>
  );
}
