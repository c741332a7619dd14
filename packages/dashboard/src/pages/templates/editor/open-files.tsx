import { X } from 'lucide-react';
import { cx } from '../../../ui/classes.ts';

/** The files that are open, to switch between them. */
export function OpenFiles({
  open,
  active,
  changed,
  onSelect,
  onClose,
}: {
  open: readonly string[];
  active: string | undefined;
  changed: ReadonlySet<string>;
  onSelect: (path: string) => void;
  onClose: (path: string) => void;
}) {
  return (
    <div
      role="group"
      aria-label="Open files"
      className="flex h-10 shrink-0 overflow-x-auto border-line border-b bg-sunken"
    >
      {open.map((path) => {
        const current = path === active;
        const name = path.split('/').at(-1)!;
        return (
          <div
            key={path}
            className={cx(
              'group flex shrink-0 items-center border-line border-r pr-1 pl-3',
              current ? 'bg-surface' : 'text-muted hover:bg-hover',
            )}
          >
            <button
              type="button"
              title={path}
              aria-current={current ? 'true' : undefined}
              onClick={() => onSelect(path)}
              onAuxClick={(event) => event.button === 1 && onClose(path)}
              className="flex h-full items-center gap-2 font-mono text-sm"
            >
              {name}
              {changed.has(path) && (
                <span className="size-2 rounded-full bg-warn">
                  <span className="sr-only">changed</span>
                </span>
              )}
            </button>
            <button
              type="button"
              aria-label={`Close ${path}`}
              onClick={() => onClose(path)}
              className="ml-1 flex size-6 items-center justify-center rounded-sm text-muted hover:bg-active hover:text-text"
            >
              <X size={13} aria-hidden="true" />
            </button>
          </div>
        );
      })}
    </div>
  );
}
