import { useSyncExternalStore } from 'react';

/** `auto` follows the system. */
export type Theme = 'auto' | 'light' | 'dark';

const KEY = 'theme';
const system = matchMedia('(prefers-color-scheme: dark)');

/** The chosen theme. */
export function theme(): Theme {
  try {
    const stored = localStorage.getItem(KEY);
    return stored === 'light' || stored === 'dark' ? stored : 'auto';
  } catch {
    return 'auto';
  }
}

/** Applies a theme in every tab of this browser. */
export function setTheme(choice: Theme): void {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // storage is blocked: the choice lasts as long as the page
  }
  apply(choice);
}

function apply(choice: Theme): void {
  const dark = choice === 'dark' || (choice === 'auto' && system.matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
}

/** Follows the system and other tabs. */
export function watchTheme(): void {
  system.addEventListener('change', () => apply(theme()));
  addEventListener('storage', (event) => {
    if (event.key === KEY) apply(theme());
  });
}

function subscribe(listen: () => void): () => void {
  const observer = new MutationObserver(listen);
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  return () => observer.disconnect();
}

/** The theme in force, for components that draw by themselves: the terminal, the editor, charts. */
export function useDark(): boolean {
  return useSyncExternalStore(subscribe, () => document.documentElement.dataset.theme === 'dark');
}
