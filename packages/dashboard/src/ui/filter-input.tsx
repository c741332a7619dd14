import { Search, X } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { IconButton } from './button.tsx';
import { cx } from './classes.ts';
import { Input } from './field.tsx';
import { filterTerm, replaceToken, tokenAt, withoutOpenTerm, withoutTermAt } from './filter-tokens.ts';
import { OptionList, useOptionList } from './option-list.tsx';

/** A value that a key may have. */
export interface FilterValue {
  value: string;
  /** Shown next to the value. */
  help?: ReactNode;
}

/** A key of a search text. `values` offers what begins with, or contains, the typed text. */
export interface FilterKey {
  key: string;
  help: string;
  /** The label of a field that finds values in a menu: `values` offers more for a typed text than for an empty one. */
  find?: string;
  values: (typed: string) => readonly FilterValue[] | Promise<readonly FilterValue[]>;
}

interface Choice {
  term: string;
  help: ReactNode;
}

const APPLY_MS = 350;
const MAX_CHOICES = 12;

/**
 * The typed text and the place of the cursor in it. The text is applied when the person stops typing, and replaced when
 * another text is applied elsewhere.
 */
function useTypedText(value: string, onChange: (value: string) => void, keys: readonly FilterKey[]) {
  const [text, setText] = useState(value);
  const [cursor, setCursor] = useState(0);
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
    let current = true;
    const timer = setTimeout(
      () =>
        void readyText(keys, text, cursor)
          .catch(() => text) // the values did not load, so any text counts as complete
          .then((ready) => {
            if (current && ready.trim() !== applied.current.trim()) apply(ready);
          }),
      APPLY_MS,
    );
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text]);
  return { text, setText, cursor, setCursor, apply };
}

/** The keys and values that complete the term at the cursor, in a list that opens and closes. */
function useSuggestions(id: string, keys: readonly FilterKey[], text: string, cursor: number) {
  const [choices, setChoices] = useState<readonly Choice[]>([]);
  const list = useOptionList(id, choices.length, -1);
  const { open, setActive } = list;
  useEffect(() => {
    if (!open) return;
    let current = true;
    void choicesFor(keys, text, cursor)
      .catch(() => []) // the field takes any value
      .then((found) => {
        if (!current) return;
        setChoices(found);
        setActive(-1);
      });
    return () => {
      current = false;
    };
  }, [open, text, cursor, keys, setActive]);
  return { choices, ...list };
}

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
  const { text, setText, cursor, setCursor, apply } = useTypedText(value, onChange, keys);
  const { choices, setOpen, active, shown, fieldProps, onKey } = useSuggestions(id, keys, text, cursor);
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
    if (onKey(event)) return;
    if (event.key === 'Enter') {
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
    }
  };
  const follow = () => setCursor(input.current?.selectionStart ?? text.length);
  const openHere = () => {
    follow();
    setOpen(true);
  };
  return (
    <div className="relative min-w-0 flex-1">
      <Search
        size={15}
        aria-hidden="true"
        className="-translate-y-1/2 pointer-events-none absolute top-4 left-2.5 text-muted"
      />
      <Input
        ref={input}
        {...fieldProps}
        aria-label={label}
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
        onFocus={openHere}
        onClick={openHere}
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
      <OptionList
        id={id}
        label="Suggestions"
        shown={shown}
        active={active}
        options={choices}
        keyOf={({ term }) => term}
        isSelected={(_, at) => at === active}
        onChoose={choose}
        render={({ term, help }) => (
          <span className="flex items-baseline gap-3">
            <code className="font-mono text-sm">{term}</code>
            <span className="min-w-0 truncate text-muted text-sm">{help}</span>
          </span>
        )}
        className="max-w-xl"
      />
      <div id={`${id}-error`} aria-live="polite" className={cx('mt-1 text-bad text-sm', !error && 'hidden')}>
        {error}
      </div>
    </div>
  );
}

/**
 * The text without the term at the cursor while that is being written: a key alone, or the beginning of a value that its
 * key offers. It would match nothing, so that the list would be empty. Enter applies the whole text.
 */
async function readyText(keys: readonly FilterKey[], text: string, cursor: number): Promise<string> {
  const ready = withoutOpenTerm(text, cursor);
  const { key, value, end } = tokenAt(text, cursor);
  if (ready !== text || key === undefined || cursor !== end) return ready;
  const typed = value.toLowerCase();
  const offered = await keys.find((one) => one.key === key)?.values(typed);
  const isBeginning = offered?.some((one) => one.value.toLowerCase().startsWith(typed));
  const isWhole = offered?.some((one) => one.value.toLowerCase() === typed);
  return isBeginning && !isWhole ? withoutTermAt(text, cursor) : text;
}

async function choicesFor(keys: readonly FilterKey[], text: string, cursor: number): Promise<Choice[]> {
  const token = tokenAt(text, cursor);
  if (token.key === undefined) {
    const typed = token.value.toLowerCase();
    return keys
      .filter(({ key }) => key.startsWith(typed))
      .slice(0, MAX_CHOICES)
      .map(({ key, help }) => ({ term: `${key}:`, help }));
  }
  const found = keys.find(({ key }) => key === token.key);
  if (!found) return [];
  const typed = token.value.toLowerCase();
  const values = await found.values(typed);
  return values
    .filter(({ value }) => value.toLowerCase().includes(typed))
    .slice(0, MAX_CHOICES)
    .map(({ value, help }) => ({ term: filterTerm(found.key, value), help }));
}
