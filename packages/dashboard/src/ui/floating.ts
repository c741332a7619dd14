import { cloneElement, type KeyboardEvent, type MouseEventHandler, type ReactElement, useState } from 'react';
import { errorText } from '../api/errors.ts';
import { toast } from './toast.tsx';

export type FloatingParts = typeof import('./floating-parts.ts');

/** The button that opens a menu or a panel. */
export type Trigger = ReactElement<{
  onPointerEnter?: (event: never) => void;
  onFocus?: () => void;
  onKeyDown?: (event: KeyboardEvent) => void;
  onClick?: MouseEventHandler;
  'aria-haspopup'?: 'menu' | 'dialog';
  'aria-expanded'?: boolean;
}>;

let loaded: FloatingParts | undefined;
let loading: Promise<FloatingParts> | undefined;

function load(): Promise<FloatingParts> {
  loading ??= import('./floating-parts.ts').then(
    (parts) => {
      loaded = parts;
      return parts;
    },
    (err) => {
      // the next press tries again
      loading = undefined;
      throw err;
    },
  );
  return loading;
}

/**
 * The parts of one menu or panel, once its button was pressed. Until then `closed` is all there is to render, so that
 * rows with menus render fast and the first page does not load the parts. A pointer over the button, or its focus,
 * loads them.
 */
export function useFloating(
  trigger: Trigger,
  kind: 'menu' | 'dialog',
  onOpen?: () => void,
): { parts: FloatingParts } | { parts: undefined; closed: ReactElement } {
  const [parts, setParts] = useState<FloatingParts>();
  if (parts) return { parts };
  const prepare = () => void load().catch(() => {});
  const open = () => {
    const use = (found: FloatingParts) => {
      setParts(found);
      onOpen?.();
    };
    if (loaded) use(loaded);
    else load().then(use, (err: unknown) => toast({ tone: 'bad', ...errorText(err) }));
  };
  const closed = cloneElement(trigger, {
    'aria-haspopup': kind,
    'aria-expanded': false,
    onPointerEnter(event: never) {
      trigger.props.onPointerEnter?.(event);
      prepare();
    },
    onFocus: prepare,
    onKeyDown: (event: KeyboardEvent) => {
      if (kind === 'menu' && event.key === 'ArrowDown') {
        event.preventDefault();
        open();
      }
    },
    onClick: open,
  });
  return { parts: undefined, closed };
}
