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

/** Applies a theme in every tab of this browser, and keeps it there for the next first paint. */
export function setTheme(choice: Theme): void {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // storage is blocked: the choice lasts as long as the page
  }
  apply(choice);
}

/**
 * The theme of an account's preference. Undefined if it has none. Upstream's variants for people who see fewer colors
 * (`dark-tritan`) are the theme that they vary: here no color stands alone.
 */
export function themeOf(preference: string): Theme | undefined {
  const [base] = preference.split('-');
  return base === 'auto' || base === 'light' || base === 'dark' ? base : undefined;
}

/** How much room rows have. */
export type Density = 'comfortable' | 'compact';

const DENSITY = 'density';

/** The density in force. */
export const density = (): Density =>
  document.documentElement.dataset.density === 'compact' ? 'compact' : 'comfortable';

/** Applies a density in every tab of this browser. */
export function setDensity(choice: Density): void {
  try {
    localStorage.setItem(DENSITY, choice);
  } catch {
    // storage is blocked: the choice lasts as long as the page
  }
  applyDensity(choice);
}

function applyDensity(choice: string | null): void {
  document.documentElement.dataset.density = choice === 'compact' ? 'compact' : 'comfortable';
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
    if (event.key === DENSITY) applyDensity(event.newValue);
  });
}

function subscribe(listen: () => void): () => void {
  const observer = new MutationObserver(listen);
  observer.observe(document.documentElement, { attributeFilter: ['data-theme', 'data-density'] });
  return () => observer.disconnect();
}

/** The theme in force, for components that draw by themselves: the terminal, the editor, charts. */
export function useDark(): boolean {
  return useSyncExternalStore(subscribe, () => document.documentElement.dataset.theme === 'dark');
}

/** The density in force, for lists that calculate with the height of their rows. */
export function useDensity(): Density {
  return useSyncExternalStore(subscribe, density);
}
