import { type ComponentPropsWithRef, createContext, type ReactNode, useContext, useId } from 'react';
import { cx } from './classes.ts';

interface FieldNames {
  id: string;
  describedBy: string | undefined;
  invalid: boolean;
}
const Names = createContext<FieldNames | undefined>(undefined);

/** A label, a control, its help and its error. The control inside takes its names from here. */
export function Field({
  label,
  help,
  helpAbove = false,
  error,
  required = false,
  hideLabel = false,
  children,
}: {
  label: ReactNode;
  help?: ReactNode;
  /** Whether the help is between the label and the control: for groups of options. */
  helpAbove?: boolean;
  error?: string | undefined;
  required?: boolean;
  hideLabel?: boolean;
  children: ReactNode;
}) {
  const id = useId();
  const helpId = `${id}-help`;
  const errorId = `${id}-error`;
  const describedBy = [help && helpId, error && errorId].filter(Boolean).join(' ') || undefined;
  const shownHelp = help && (
    <div id={helpId} className="text-muted text-sm">
      {help}
    </div>
  );
  return (
    <div className="flex min-w-0 flex-col gap-1.5">
      <label htmlFor={id} className={cx('font-medium text-sm text-text', hideLabel && 'sr-only')}>
        {label}
        {required && <span className="text-muted"> (required)</span>}
      </label>
      {helpAbove && shownHelp}
      <Names.Provider value={{ id, describedBy, invalid: Boolean(error) }}>{children}</Names.Provider>
      {!helpAbove && shownHelp}
      {/* always there, so that assistive technology reads what appears in it */}
      <div id={errorId} aria-live="polite" className={cx('text-bad text-sm', !error && 'hidden')}>
        {error}
      </div>
    </div>
  );
}

/** Around controls that are inside a field but not its own, such as the search of a panel that it opens. */
export function OutsideField({ children }: { children: ReactNode }) {
  return <Names.Provider value={undefined}>{children}</Names.Provider>;
}

/** The attributes that connect a control to its field. */
export function useField() {
  const names = useContext(Names);
  return names
    ? {
        id: names.id,
        'aria-describedby': names.describedBy,
        'aria-invalid': names.invalid || undefined,
      }
    : {};
}

const BOX = cx(
  'w-full min-w-0 rounded-md border border-field bg-surface text-base text-text placeholder:text-faint',
  'focus-visible:outline-2 focus-visible:outline-focus focus-visible:outline-offset-0',
  'aria-invalid:border-bad disabled:cursor-not-allowed disabled:opacity-60',
);

/** A text input of one line. It belongs to the `Field` around it, if there is one. */
export function Input({ className, ...rest }: ComponentPropsWithRef<'input'>) {
  return (
    <input
      autoComplete="off"
      spellCheck={false}
      {...useField()}
      {...rest}
      className={cx(BOX, 'h-8 px-2.5', className)}
    />
  );
}

export function TextArea({ className, ...rest }: ComponentPropsWithRef<'textarea'>) {
  return <textarea rows={4} {...useField()} {...rest} className={cx(BOX, 'px-2.5 py-1.5', className)} />;
}

/** The browser's own choice list: right for a few options without icons. */
export function NativeSelect({ className, ...rest }: ComponentPropsWithRef<'select'>) {
  return <select {...useField()} {...rest} className={cx(BOX, 'h-8 px-2', className)} />;
}
