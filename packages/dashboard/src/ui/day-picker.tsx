import { WEEK } from '../util/weekdays.ts';
import { cx } from './classes.ts';

const names = (weekday: 'short' | 'long') => {
  const format = new Intl.DateTimeFormat(undefined, { weekday, timeZone: 'UTC' });
  // 4 January 1970 was a Sunday
  return Array.from({ length: 7 }, (_, day) => format.format((3 + day) * 86_400_000));
};
const SHORT = names('short');
const LONG = names('long');

/** The names of days in the reader's language, such as `Monday, Friday`. */
export const dayNames = (days: readonly number[]): string =>
  WEEK.filter((day) => days.includes(day))
    .map((day) => LONG[day])
    .join(', ');

/** Chooses days of the week. 0 is Sunday. */
export function DayPicker({
  label,
  days,
  onChange,
  disabled = false,
  help,
  error,
}: {
  label: string;
  days: readonly number[];
  onChange: (days: number[]) => void;
  disabled?: boolean;
  help?: string | undefined;
  error?: string | undefined;
}) {
  return (
    <fieldset>
      <legend className="mb-1.5 font-medium text-sm">{label}</legend>
      <div className="grid max-w-93 grid-cols-7 gap-1.5">
        {WEEK.map((day) => {
          const on = days.includes(day);
          return (
            <button
              key={day}
              type="button"
              aria-pressed={on}
              disabled={disabled}
              onClick={() => onChange(on ? days.filter((other) => other !== day) : [...days, day].sort())}
              className={cx(
                'h-8 min-w-0 truncate rounded-md border font-medium text-sm',
                on ? 'border-transparent bg-accent text-on-accent' : 'border-field bg-surface hover:bg-hover',
              )}
            >
              {SHORT[day]}
            </button>
          );
        })}
      </div>
      {help && !error && <p className="mt-1 text-muted text-sm">{help}</p>}
      <div aria-live="polite" className={cx('text-bad text-sm', error && 'mt-1')}>
        {error}
      </div>
    </fieldset>
  );
}
