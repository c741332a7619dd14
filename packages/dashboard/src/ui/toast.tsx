import { X } from 'lucide-react';
import { type ReactNode, useSyncExternalStore } from 'react';
import { Button, IconButton } from './button.tsx';
import { cx, type Tone } from './classes.ts';
import { Notice } from './notice.tsx';

interface Toast {
  id: number;
  tone: Tone;
  title: string;
  detail?: ReactNode;
  /** A button. Its press removes the message. */
  action?: { name: string; run: () => void } | undefined;
}

const SHOWN_MS = 5_000;
const ERROR_SHOWN_MS = 12_000;
const MOST = 4;

let toasts: readonly Toast[] = [];
let nextId = 1;
const listeners = new Set<() => void>();

function update(next: readonly Toast[]): void {
  toasts = next;
  for (const listen of listeners) listen();
}

/** Shows a message at the edge of the window for a few seconds. Returns a function that removes it. */
export function toast({
  tone = 'good',
  shownMs = tone === 'bad' ? ERROR_SHOWN_MS : SHOWN_MS,
  ...rest
}: Omit<Toast, 'id' | 'tone'> & { tone?: Tone; shownMs?: number }): () => void {
  const id = nextId++;
  const same = toasts.filter((other) => other.title !== rest.title);
  update([...same.slice(1 - MOST), { id, tone, ...rest }]);
  setTimeout(() => dismiss(id), shownMs);
  return () => dismiss(id);
}

const dismiss = (id: number) => update(toasts.filter((each) => each.id !== id));

/** Where toasts appear. Rendered once. */
export function Toasts() {
  const shown = useSyncExternalStore(
    (listen) => {
      listeners.add(listen);
      return () => listeners.delete(listen);
    },
    () => toasts,
  );
  return (
    <section
      aria-label="Messages"
      className="pointer-events-none fixed right-4 bottom-4 z-60 flex w-[min(26rem,calc(100vw-2rem))] flex-col gap-2"
    >
      {shown.map(({ id, action, ...each }) => (
        <div
          key={id}
          className={cx(
            'pointer-events-auto relative rounded-lg bg-raised shadow-float',
            // a neutral notice is sunken, which looks like a hole in the page
            each.tone === 'neutral' && '*:first:bg-transparent',
          )}
        >
          <Notice
            {...each}
            actions={
              action && (
                <Button
                  size="sm"
                  onClick={() => {
                    action.run();
                    dismiss(id);
                  }}
                >
                  {action.name}
                </Button>
              )
            }
          />
          <div className="absolute top-2 right-2">
            <IconButton icon={X} size="sm" label="Dismiss" onClick={() => dismiss(id)} />
          </div>
        </div>
      ))}
    </section>
  );
}
