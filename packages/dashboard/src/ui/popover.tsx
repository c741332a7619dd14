import type { ReactNode } from 'react';
import { cx } from './classes.ts';
import { type Trigger, useFloating } from './floating.ts';

/** A panel that a button opens. */
export function Popover({
  trigger,
  children,
  open,
  onOpenChange,
  align = 'end',
  tight = false,
}: {
  trigger: Trigger;
  children: ReactNode;
  open?: boolean;
  onOpenChange?: (open: boolean) => void;
  align?: 'start' | 'center' | 'end';
  /** Narrow, and with little padding: a list of short texts. */
  tight?: boolean;
}) {
  const floating = useFloating(trigger, 'dialog', () => onOpenChange?.(true));
  if (!floating.parts) return floating.closed;
  const Radix = floating.parts.Popover;
  return (
    <Radix.Root
      {...(open === undefined ? { defaultOpen: true } : { open })}
      {...(onOpenChange ? { onOpenChange } : {})}
    >
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className={cx(
            'z-50 max-h-(--radix-popover-content-available-height) overflow-y-auto rounded-lg bg-raised shadow-float',
            tight ? 'w-[min(19rem,calc(100vw-1rem))] p-1.5' : 'w-[min(24rem,calc(100vw-1rem))] p-4',
          )}
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
