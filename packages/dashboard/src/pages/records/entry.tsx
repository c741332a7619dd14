import { ChevronRight } from 'lucide-react';
import { type ReactNode, useId, useState } from 'react';
import { cx } from '../../ui/classes.ts';

/** One entry of a log: a line that opens to its details. */
export function Entry({
  picture,
  title,
  note,
  aside,
  label,
  children,
}: {
  picture: ReactNode;
  title: ReactNode;
  note: ReactNode;
  aside?: ReactNode;
  /** The name of the button that opens the details. */
  label: string;
  children: ReactNode;
}) {
  const id = useId();
  const [open, setOpen] = useState(false);
  return (
    <li className="border-line border-b last:border-b-0">
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the button in the line is for keys */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the button in the line is for keys */}
      <div
        className="flex cursor-pointer items-center gap-3 px-3 py-2.5 hover:bg-hover sm:px-4"
        onClick={(event) => {
          if ((event.target as HTMLElement).closest('a,button') || window.getSelection()?.toString()) return;
          setOpen(!open);
        }}
      >
        <button
          type="button"
          aria-expanded={open}
          aria-controls={id}
          aria-label={label}
          onClick={() => setOpen(!open)}
          className="flex size-6 shrink-0 items-center justify-center rounded-md text-muted hover:bg-active hover:text-text"
        >
          <ChevronRight size={15} aria-hidden="true" className={cx('transition-transform', open && 'rotate-90')} />
        </button>
        {picture}
        <div className="min-w-0 flex-1">
          <div className="break-words">{title}</div>
          <div className="flex flex-wrap gap-x-2 text-muted text-sm">{note}</div>
        </div>
        {aside && <div className="shrink-0">{aside}</div>}
      </div>
      <div id={id} hidden={!open} className="flex flex-col gap-4 bg-sunken px-4 py-4 sm:pl-14">
        {open && children}
      </div>
    </li>
  );
}
