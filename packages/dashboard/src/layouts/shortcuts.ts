import { useEffect, useRef } from 'react';
import { useSitePermissions } from '../api/permissions.ts';
import { useGo } from '../util/route.ts';
import { PAGE_SHORTCUTS, plainKeysOn } from './shortcut-list.ts';

/** How long the second key of a shortcut may take. */
const SECOND_KEY_MS = 1_200;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || target.closest('input,textarea,select,[role="textbox"],.xterm') !== null);

/** Listens for the keyboard shortcuts of all pages. */
export function useShortcuts(show: (what: 'palette' | 'shortcuts') => void): void {
  const go = useGo();
  const may = useSitePermissions();
  const latest = useRef({ go, may, show });
  latest.current = { go, may, show };
  useEffect(() => {
    let first = '';
    let firstAt = 0;
    const onKey = (event: KeyboardEvent) => {
      const { go, may, show } = latest.current;
      const { key, target } = event;
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && key.toLowerCase() === 'k') {
        // in a terminal, Ctrl+K belongs to the shell
        if (target instanceof HTMLElement && target.closest('.xterm')) return;
        event.preventDefault();
        return show('palette');
      }
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isTyping(target) || document.querySelector('[role="dialog"],[role="menu"]') || !plainKeysOn()) return;
      if (key === '?') return show('shortcuts');
      if (key === '/') {
        const search = document.querySelector<HTMLInputElement>('main input[type="search"]');
        if (search) event.preventDefault();
        return search?.focus();
      }
      const keys = event.timeStamp - firstAt < SECOND_KEY_MS ? `${first} ${key}` : '';
      const page = PAGE_SHORTCUTS.find((each) => each.keys === keys && (!each.needs || may[each.needs]));
      first = page ? '' : key;
      firstAt = event.timeStamp;
      if (page) go(page.to);
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
}
