import { useSyncExternalStore } from 'react';

/** Settings of terminals in this browser. */
export interface TerminalPreferences {
  fontSize: number;
  /** Describes the screen for screen readers, which takes time with much output. */
  screenReader: boolean;
}

export const FONT_SIZES = { least: 8, most: 32 };
const KEY = 'terminal';
const DEFAULTS: TerminalPreferences = { fontSize: 14, screenReader: false };

let current = read();
const listeners = new Set<() => void>();

function read(): TerminalPreferences {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<TerminalPreferences>;
    const size = Number(stored.fontSize ?? DEFAULTS.fontSize);
    return {
      fontSize: Math.min(FONT_SIZES.most, Math.max(FONT_SIZES.least, Number.isFinite(size) ? size : DEFAULTS.fontSize)),
      screenReader: stored.screenReader === true,
    };
  } catch {
    return DEFAULTS;
  }
}

export function setTerminalPreferences(change: Partial<TerminalPreferences>): void {
  current = { ...current, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(current));
  } catch {
    // storage is blocked: the choice lasts as long as the page
  }
  for (const listen of listeners) listen();
}

const subscribe = (listen: () => void) => {
  listeners.add(listen);
  return () => listeners.delete(listen);
};

export const useTerminalPreferences = (): TerminalPreferences => useSyncExternalStore(subscribe, () => current);
