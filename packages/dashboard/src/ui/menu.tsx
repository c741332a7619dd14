import type { LucideIcon } from 'lucide-react';
import { DropdownMenu as Radix } from 'radix-ui';
import type { ReactNode } from 'react';
import { cx } from './classes.ts';
import { Link } from './link.tsx';

/** A menu that a button opens. The button is `trigger`. */
export function Menu({
  trigger,
  children,
  align = 'end',
  startOpen = false,
}: {
  trigger: ReactNode;
  children: ReactNode;
  align?: 'start' | 'end';
  /** For a menu that is made when its button is pressed. */
  startOpen?: boolean;
}) {
  return (
    <Radix.Root modal={false} defaultOpen={startOpen}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="z-50 max-h-(--radix-dropdown-menu-content-available-height) min-w-44 max-w-80 overflow-y-auto rounded-lg bg-raised p-1 shadow-float"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

const ITEM =
  'flex cursor-default select-none items-center gap-2 rounded-sm px-2 py-1.5 outline-none data-[disabled]:opacity-50 data-[highlighted]:bg-hover';

export function MenuItem({
  icon: Icon,
  onSelect,
  to,
  href,
  danger = false,
  disabled = false,
  children,
}: {
  icon?: LucideIcon;
  onSelect?: () => void;
  /** A page of the dashboard. */
  to?: string;
  /** An address outside of the dashboard. */
  href?: string;
  danger?: boolean;
  disabled?: boolean;
  children: ReactNode;
}) {
  const content = (
    <>
      {Icon && <Icon size={15} aria-hidden="true" className={danger ? '' : 'text-muted'} />}
      {children}
    </>
  );
  const className = cx(ITEM, danger && 'text-bad');
  if (to !== undefined || href !== undefined) {
    return (
      <Radix.Item asChild disabled={disabled} className={className}>
        {to !== undefined ? (
          <Link to={to} plain>
            {content}
          </Link>
        ) : (
          <a href={href}>{content}</a>
        )}
      </Radix.Item>
    );
  }
  return (
    <Radix.Item disabled={disabled} className={className} onSelect={onSelect}>
      {content}
    </Radix.Item>
  );
}

export const MenuSeparator = () => <Radix.Separator className="my-1 h-px bg-line" />;

export function MenuLabel({ children }: { children: ReactNode }) {
  return <Radix.Label className="px-2 py-1.5 text-muted text-sm">{children}</Radix.Label>;
}
