import { CircleAlert, CircleCheck, Info, type LucideIcon, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { cx, softTone, type Tone, textTone } from './classes.ts';

const ICONS: Partial<Record<Tone, LucideIcon>> = { good: CircleCheck, warn: TriangleAlert, bad: CircleAlert };

/** A message in the page: what is the case, why, and what to do. */
export function Notice({
  tone = 'neutral',
  title,
  detail,
  actions,
  children,
}: {
  tone?: Tone;
  title: ReactNode;
  detail?: ReactNode;
  actions?: ReactNode;
  children?: ReactNode;
}) {
  const Icon = ICONS[tone] ?? Info;
  return (
    <div role={tone === 'bad' ? 'alert' : 'status'} className={cx('flex gap-3 rounded-lg px-4 py-3', softTone[tone])}>
      <Icon size={17} aria-hidden="true" className={cx('mt-0.5 shrink-0', textTone[tone])} />
      <div className="flex min-w-0 flex-1 flex-col gap-1">
        <div className="break-words font-medium text-text">{title}</div>
        {detail && <div className="whitespace-pre-wrap break-words text-text">{detail}</div>}
        {children}
        {actions && <div className="mt-1 flex flex-wrap gap-2">{actions}</div>}
      </div>
    </div>
  );
}
