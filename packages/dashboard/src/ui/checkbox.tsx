import { Check, Minus } from 'lucide-react';
import { type ReactNode, useId } from 'react';
import { cx } from './classes.ts';

/** A checkbox with its label and help. It needs no `Field` around it. */
export function Checkbox({
  checked,
  onChange,
  label,
  hideLabel = false,
  help,
  disabled = false,
}: {
  checked: boolean | 'indeterminate';
  onChange: (checked: boolean) => void;
  label: ReactNode;
  hideLabel?: boolean;
  help?: ReactNode;
  disabled?: boolean;
}) {
  const id = useId();
  const Mark = checked === 'indeterminate' ? Minus : Check;
  return (
    <div className="flex items-start gap-2">
      <span className="relative mt-0.5 size-4 shrink-0">
        <input
          type="checkbox"
          id={id}
          ref={(input) => {
            if (input) input.indeterminate = checked === 'indeterminate';
          }}
          checked={checked === true}
          disabled={disabled}
          aria-describedby={help ? `${id}-help` : undefined}
          onChange={(event) => onChange(event.target.checked)}
          className="block size-4 appearance-none rounded-xs border border-field bg-surface checked:border-accent checked:bg-accent indeterminate:border-accent indeterminate:bg-accent disabled:opacity-55"
        />
        {checked !== false && (
          <Mark
            size={12}
            strokeWidth={3}
            aria-hidden="true"
            className="pointer-events-none absolute inset-0 m-auto text-on-accent"
          />
        )}
      </span>
      <div className={cx('min-w-0', hideLabel && 'sr-only')}>
        <label htmlFor={id}>{label}</label>
        {help && (
          <div id={`${id}-help`} className="text-muted text-sm">
            {help}
          </div>
        )}
      </div>
    </div>
  );
}
