import { lazy, Suspense } from 'react';
import { SkeletonLines } from './states.tsx';

const Rendered = lazy(() => import('./markdown-rendered.tsx'));

/** Markdown from people. HTML in it is shown as text, and its links open new tabs. */
export function Markdown({ text, inline = false }: { text: string; inline?: boolean }) {
  // most short texts have no markup at all
  if (!/[*_`#[\]<>|~\\&]|https?:|^\s*([-+]|\d+\.)\s|\n/m.test(text)) return <span>{text}</span>;
  return (
    <Suspense fallback={inline ? <span>{text}</span> : <SkeletonLines />}>
      <Rendered text={text} inline={inline} />
    </Suspense>
  );
}
