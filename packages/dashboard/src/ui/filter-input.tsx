import { Search, X } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { IconButton } from './button.tsx';
import { cx } from './classes.ts';
import { Input } from './field.tsx';
import { filterTerm, replaceToken, tokenAt } from './filter-tokens.ts';

/** A value that a key may have. */
export interface FilterValue {
  value: string;
  /** Shown beside the value. */
  help?: ReactNode;
}

/** A key of a search text. `values` offers what begins with, or contains, the typed text. */
export interface FilterKey {
  key: string;
  help: string;
  values: (typed: string) => readonly FilterValue[] | Promise<readonly FilterValue[]>;
}

interface Choice {
  term: string;
  help: ReactNode;
}

const APPLY_MS = 350;
const MOST_CHOICES = 12;

/** A search field for texts such as `owner:me status:running`, which completes keys and values. */
export function FilterInput({
  value,
  onChange,
  keys,
  label,
  placeholder,
  error,
}: {
  value: string;
  onChange: (value: string) => void;
  keys: readonly FilterKey[];
  label: string;
  placeholder?: string;
  /** What is wrong with the applied text. */
  error?: string | undefined;
}) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  const [open, setOpen] = useState(false);
  const [cursor, setCursor] = useState(0);
  const [choices, setChoices] = useState<readonly Choice[]>([]);
  const [active, setActive] = useState(-1);
  const applied = useRef(value);
  useEffect(() => {
    // the address changed: by a saved filter, or by the back button
    if (value.trim() === applied.current.trim()) return;
    applied.current = value;
    setText(value);
  }, [value]);
  const apply = (next: string) => {
    applied.current = next;
    onChange(next.trim());
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: only typing starts the timer
  useEffect(() => {
    if (text === applied.current) return;
    const timer = setTimeout(() => apply(text), APPLY_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    if (!open) return;
    let current = true;
    void choicesFor(keys, text, cursor).then((found) => {
      if (!current) return;
      setChoices(found);
      setActive(-1);
    });
    return () => {
      current = false;
    };
  }, [open, text, cursor, keys]);
  const choose = ({ term }: Choice) => {
    const next = replaceToken(text, tokenAt(text, cursor), term);
    setText(next.text);
    setCursor(next.cursor);
    if (!term.endsWith(':')) apply(next.text);
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(next.cursor, next.cursor);
    });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const shown = open && choices.length > 0;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      setOpen(true);
      const step = event.key === 'ArrowDown' ? 1 : -1;
      setActive((at) => (choices.length === 0 ? -1 : (at + step + choices.length) % choices.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const chosen = choices[active];
      if (shown && chosen) choose(chosen);
      else {
        setOpen(false);
        apply(text);
      }
    } else if (event.key === 'Tab' && shown && active >= 0) {
      event.preventDefault();
      choose(choices[active]!);
    } else if (event.key === 'Escape' && open) {
      event.stopPropagation();
      setOpen(false);
    }
  };
  const follow = () => setCursor(input.current?.selectionStart ?? text.length);
  const shown = open && choices.length > 0;
  return (
    <div className="relative min-w-0 flex-1">
      <Search
        size={15}
        aria-hidden="true"
        className="-translate-y-1/2 pointer-events-none absolute top-4 left-2.5 text-muted"
      />
      <Input
        ref={input}
        role="combobox"
        aria-label={label}
        aria-expanded={shown}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={shown && active >= 0 ? `${id}-${active}` : undefined}
        aria-invalid={error ? true : undefined}
        aria-describedby={error ? `${id}-error` : undefined}
        placeholder={placeholder}
        value={text}
        className="pr-8 pl-8"
        onChange={(event) => {
          setText(event.target.value);
          setOpen(true);
          setCursor(event.target.selectionStart ?? event.target.value.length);
        }}
        onFocus={() => {
          follow();
          setOpen(true);
        }}
        onClick={() => {
          follow();
          setOpen(true);
        }}
        onKeyUp={follow}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      {text !== '' && (
        <div className="absolute top-0.5 right-0.5">
          <IconButton
            icon={X}
            size="sm"
            label="Clear the search"
            onClick={() => {
              setText('');
              apply('');
              input.current?.focus();
            }}
          />
        </div>
      )}
      <div
        id={`${id}-list`}
        role="listbox"
        aria-label="Suggestions"
        hidden={!shown}
        className="absolute top-full right-0 left-0 z-40 mt-1 max-h-80 max-w-xl overflow-y-auto rounded-lg bg-raised p-1 shadow-float"
      >
        {choices.map((choice, at) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
          <div
            key={choice.term}
            id={`${id}-${at}`}
            role="option"
            aria-selected={at === active}
            className={cx(
              'flex cursor-default items-baseline gap-3 rounded-sm px-2 py-1.5',
              at === active ? 'bg-hover' : 'hover:bg-hover',
            )}
            // the field keeps the focus
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(choice)}
          >
            <code className="font-mono text-sm">{choice.term}</code>
            <span className="min-w-0 truncate text-muted text-sm">{choice.help}</span>
          </div>
        ))}
      </div>
      <div id={`${id}-error`} aria-live="polite" className={cx('mt-1 text-bad text-sm', !error && 'hidden')}>
        {error}
      </div>
    </div>
  );
}

async function choicesFor(keys: readonly FilterKey[], text: string, cursor: number): Promise<Choice[]> {
  const token = tokenAt(text, cursor);
  if (token.key === undefined) {
    const typed = token.value.toLowerCase();
    return keys
      .filter(({ key }) => key.startsWith(typed))
      .slice(0, MOST_CHOICES)
      .map(({ key, help }) => ({ term: `${key}:`, help }));
  }
  const found = keys.find(({ key }) => key === token.key);
  if (!found) return [];
  const typed = token.value.toLowerCase();
  const values = await found.values(typed);
  return values
    .filter(({ value }) => value.toLowerCase().includes(typed))
    .slice(0, MOST_CHOICES)
    .map(({ value, help }) => ({ term: filterTerm(found.key, value), help }));
}
