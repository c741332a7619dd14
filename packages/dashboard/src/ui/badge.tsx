import type { LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import { cx, softTone, type Tone, textTone } from './classes.ts';

/** A small label. */
export function Badge({
  tone = 'neutral',
  icon: Icon,
  children,
}: {
  tone?: Tone;
  icon?: LucideIcon;
  children: ReactNode;
}) {
  return (
    <span
      className={cx(
        'inline-flex h-5 items-center gap-1 whitespace-nowrap rounded-sm px-1.5 font-medium text-xs',
        softTone[tone],
      )}
    >
      {Icon && <Icon size={12} aria-hidden="true" />}
      {children}
    </span>
  );
}

const DOT: Record<Tone, string> = {
  neutral: 'bg-faint',
  accent: 'bg-accent',
  good: 'bg-good',
  busy: 'bg-busy animate-pulse',
  warn: 'bg-warn',
  bad: 'bg-bad',
};

/** A state: a dot with its name. */
export function Status({ tone, children }: { tone: Tone; children: ReactNode }) {
  return (
    <span className={cx('inline-flex items-center gap-2 whitespace-nowrap', textTone[tone])}>
      <span aria-hidden="true" className={cx('size-2 shrink-0 rounded-full', DOT[tone])} />
      {children}
    </span>
  );
}
