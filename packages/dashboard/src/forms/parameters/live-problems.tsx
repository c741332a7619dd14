import { Notice } from '../../ui/notice.tsx';
import type { LiveParameters } from './use-live-parameters.ts';

/** What a person must know about a form that the server evaluates, apart from the problems of its fields. */
export function LiveProblems({ live }: { live: LiveParameters | undefined }) {
  if (!live) return null;
  return (
    <>
      {live.away && (
        <Notice
          tone="warn"
          title="Not connected to the server"
          detail="The form does not follow your changes until the connection is back. It reconnects by itself."
        />
      )}
      {live.problems.map(({ severity, summary, detail }) => (
        <Notice
          key={`${summary}${detail}`}
          tone={severity === 'error' ? 'bad' : 'warn'}
          title={summary}
          detail={detail}
        />
      ))}
    </>
  );
}
