import type { LucideIcon } from 'lucide-react';
import { createContext, type ReactNode, useContext } from 'react';
import { cx } from './classes.ts';
import { type FloatingParts, type Trigger, useFloating } from './floating.ts';
import { Link } from './link.tsx';

type MenuParts = FloatingParts['DropdownMenu'];

/** Given to the entries of an open menu. */
const Parts = createContext<MenuParts | undefined>(undefined);

function useParts(): MenuParts {
  const parts = useContext(Parts);
  if (!parts) throw new Error('An entry of a menu is outside of a menu.');
  return parts;
}

/** A menu that a button opens. The button is `trigger`. */
export function Menu({
  trigger,
  children,
  align = 'end',
}: {
  trigger: Trigger;
  children: ReactNode;
  align?: 'start' | 'end';
}) {
  const floating = useFloating(trigger, 'menu');
  if (!floating.parts) return floating.closed;
  const Radix = floating.parts.DropdownMenu;
  return (
    <Radix.Root modal={false} defaultOpen>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="z-50 max-h-(--radix-dropdown-menu-content-available-height) min-w-44 max-w-80 overflow-y-auto rounded-lg bg-raised p-1 shadow-float"
        >
          <Parts value={Radix}>{children}</Parts>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

const ITEM =
  'flex cursor-default select-none items-center gap-2 rounded-sm px-2 py-1.5 outline-none data-[disabled]:opacity-50 data-[highlighted]:bg-active';

/** An entry of a menu: a link with `to` or `href`, otherwise an action with `onSelect`. */
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
  /** The menu closes, unless this prevents the event's default. */
  onSelect?: (event: Event) => void;
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
  const { Item } = useParts();
  if (to !== undefined || href !== undefined) {
    return (
      <Item asChild disabled={disabled} className={className}>
        {to !== undefined ? (
          <Link to={to} plain>
            {content}
          </Link>
        ) : (
          <a href={href}>{content}</a>
        )}
      </Item>
    );
  }
  return (
    <Item disabled={disabled} className={className} onSelect={onSelect}>
      {content}
    </Item>
  );
}

export function MenuSeparator() {
  const { Separator } = useParts();
  return <Separator className="my-1 h-px bg-line" />;
}

export function MenuLabel({ children }: { children: ReactNode }) {
  const { Label } = useParts();
  return <Label className="px-2 py-1.5 text-muted text-sm">{children}</Label>;
}
