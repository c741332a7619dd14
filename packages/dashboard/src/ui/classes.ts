/** Joins class names; false and undefined are left out. */
export const cx = (...names: (string | false | null | undefined)[]): string => names.filter(Boolean).join(' ');

/** The meaning of a color. `busy` is something under way. */
export type Tone = 'neutral' | 'accent' | 'good' | 'busy' | 'warn' | 'bad';

export const softTone: Record<Tone, string> = {
  neutral: 'bg-sunken text-muted',
  accent: 'bg-accent-soft text-accent-text',
  good: 'bg-good-soft text-good',
  busy: 'bg-busy-soft text-busy',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
};

export const textTone: Record<Tone, string> = {
  neutral: 'text-muted',
  accent: 'text-accent-text',
  good: 'text-good',
  busy: 'text-busy',
  warn: 'text-warn',
  bad: 'text-bad',
};
