import type { LucideIcon } from 'lucide-react';
import type { ComponentPropsWithRef, ReactNode } from 'react';
import { cx } from './classes.ts';
import { Link } from './link.tsx';
import { Spinner } from './spinner.tsx';

type Look = 'primary' | 'default' | 'ghost' | 'danger';
type Size = 'sm' | 'md';

const LOOKS: Record<Look, string> = {
  primary: 'bg-accent text-on-accent hover:bg-accent-hover border-transparent',
  default: 'bg-raised text-text border-line-strong hover:bg-hover active:bg-active',
  ghost: 'bg-transparent text-muted border-transparent hover:bg-hover hover:text-text active:bg-active',
  danger: 'bg-bad-solid text-white hover:bg-bad-solid-hover border-transparent',
};
const SIZES: Record<Size, string> = {
  sm: 'h-7 px-2.5 text-sm gap-1.5',
  md: 'h-8 px-3 text-base gap-2',
};

const SQUARE: Record<Size, string> = { sm: 'size-7 justify-center', md: 'size-8 justify-center' };

/** The classes of a button, for elements that look like one. */
export function buttonClass(look: Look = 'default', size: Size = 'md', square = false): string {
  return cx(
    'inline-flex shrink-0 select-none items-center whitespace-nowrap rounded-md border font-medium transition-colors',
    'disabled:cursor-not-allowed disabled:opacity-55 aria-disabled:cursor-not-allowed aria-disabled:opacity-55',
    LOOKS[look],
    square ? cx(SQUARE[size], size === 'sm' ? 'text-sm' : 'text-base') : cx(SIZES[size], 'justify-center'),
  );
}

export interface ButtonProps extends ComponentPropsWithRef<'button'> {
  look?: Look;
  size?: Size;
  icon?: LucideIcon;
  /** Shows a spinner and ignores clicks. */
  pending?: boolean;
}

/** A button with a text. Inside a form, it submits only with `type="submit"`. */
export function Button({
  look,
  size,
  icon: Icon,
  pending = false,
  disabled,
  children,
  className,
  ...rest
}: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled || pending}
      aria-busy={pending || undefined}
      className={cx(buttonClass(look, size), className)}
    >
      {pending ? <Spinner /> : Icon && <Icon size={15} aria-hidden="true" />}
      {children}
    </button>
  );
}

export interface IconButtonProps extends Omit<ButtonProps, 'children' | 'icon'> {
  icon: LucideIcon;
  /** The button's name for assistive technology, and its tooltip. */
  label: string;
}

/** A button that shows only an icon. */
export function IconButton({
  icon: Icon,
  label,
  look = 'ghost',
  size,
  pending = false,
  className,
  ...rest
}: IconButtonProps) {
  return (
    <button
      type="button"
      title={label}
      aria-label={label}
      {...rest}
      disabled={rest.disabled || pending}
      className={cx(buttonClass(look, size, true), className)}
    >
      {pending ? <Spinner /> : <Icon size={16} aria-hidden="true" />}
    </button>
  );
}

/** A link to a page of the dashboard that looks like a button. */
export function LinkButton({
  to,
  look,
  size,
  icon: Icon,
  children,
  className,
}: {
  to: string;
  look?: Look;
  size?: Size;
  icon?: LucideIcon;
  children: ReactNode;
  className?: string;
}) {
  return (
    <Link to={to} plain className={cx(buttonClass(look, size), className)}>
      {Icon && <Icon size={15} aria-hidden="true" />}
      {children}
    </Link>
  );
}
