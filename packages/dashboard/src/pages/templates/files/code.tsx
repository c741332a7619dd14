import { type ComponentProps, lazy, Suspense } from 'react';
import { SkeletonLines } from '../../../ui/states.tsx';

const CodeView = lazy(() => import('./code-view.tsx'));

/** The text of a file. The editor's code loads when it is first shown. */
export function Code(props: ComponentProps<typeof CodeView>) {
  return (
    <Suspense
      fallback={
        <div className="p-4">
          <SkeletonLines lines={8} />
        </div>
      }
    >
      <CodeView {...props} />
    </Suspense>
  );
}
