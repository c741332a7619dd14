import type { ReactNode } from 'react';
import { type Trigger, useFloating } from './floating.ts';

/** A panel that a button opens. */
export function Popover({
  trigger,
  children,
  open,
  onOpenChange,
  align = 'end',
}: {
  trigger: Trigger;
  children: ReactNode;
  open?: boolean;
  onOpenChange?: (open: boolean) => void;
  align?: 'start' | 'center' | 'end';
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
          className="z-50 max-h-(--radix-popover-content-available-height) w-[min(24rem,calc(100vw-1rem))] overflow-y-auto rounded-lg bg-raised p-4 shadow-float"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
