import type { ReactNode } from 'react';
import { errorText, isBeyondFields } from '../api/errors.ts';
import { cx } from './classes.ts';
import { Notice } from './notice.tsx';

/**
 * A form that submits by its button or with Enter. `fields` are those whose server errors appear next to them: any other
 * error appears above the buttons.
 */
export function Form({
  onSubmit,
  error,
  fields = [],
  actions,
  inDialog = false,
  children,
}: {
  onSubmit: (fields: FormData) => void;
  error?: unknown;
  fields?: readonly string[];
  actions: ReactNode;
  /** Whether its buttons are at the end, as those of every dialog. The last one submits. */
  inDialog?: boolean;
  children: ReactNode;
}) {
  return (
    <form
      noValidate
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        // Enter submits a form with one field even while its buttons are away, because there is nothing to save
        if (!event.currentTarget.querySelector('[type=submit]')) return;
        onSubmit(new FormData(event.currentTarget));
      }}
    >
      {children}
      {isBeyondFields(error, fields) && <Notice tone="bad" {...errorText(error)} />}
      <div className={cx('flex flex-wrap gap-2 empty:hidden', inDialog && 'justify-end')}>{actions}</div>
    </form>
  );
}
