import type { Workspace } from '@ropewalk/contract';
import { X } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import { Button, IconButton } from '../../../ui/button.tsx';
import { BULK_ACTIONS, countedWorkspaces } from './bulk-actions.ts';
import { type BulkAction, type MayOf, mayOrder, planOf } from './selection.ts';

const BulkDialog = lazy(() => import('./bulk-dialog.tsx'));

/** What can be done with the selected workspaces. */
export function BulkBar({
  selected,
  mayOf,
  total,
  onSelectAll,
  onClear,
}: {
  selected: readonly Workspace[];
  mayOf: MayOf;
  /** How many match the search. */
  total: number;
  onSelectAll: () => Promise<void>;
  onClear: () => void;
}) {
  const [asked, setAsked] = useState<{ action: BulkAction; workspaces: readonly Workspace[] }>();
  const [loading, setLoading] = useState(false);
  return (
    <div
      role="toolbar"
      aria-label="Selected workspaces"
      className="sticky top-13 z-20 flex flex-wrap items-center gap-2 border-line border-b bg-accent-soft px-4 py-2"
    >
      <span className="mr-2 font-medium" aria-live="polite">
        {countedWorkspaces(selected.length)} selected
      </span>
      {BULK_ACTIONS.filter(({ action }) => selected.some((workspace) => mayOrder(action, workspace, mayOf))).map(
        ({ action, name, icon }) => (
          <Button
            key={action}
            size="sm"
            icon={icon}
            onClick={() => setAsked({ action, workspaces: selected })}
            disabled={!selected.some((workspace) => 'does' in planOf(action, workspace, mayOf))}
          >
            {name}
          </Button>
        ),
      )}
      {total > selected.length && (
        <Button
          size="sm"
          look="ghost"
          pending={loading}
          onClick={() => {
            setLoading(true);
            void onSelectAll().finally(() => setLoading(false));
          }}
        >
          Select all {total.toLocaleString()}
        </Button>
      )}
      <div className="flex-1" />
      <IconButton icon={X} size="sm" label="Clear the selection" onClick={onClear} />
      <Suspense>
        {asked && <BulkDialog {...asked} mayOf={mayOf} onClose={() => setAsked(undefined)} onDone={onClear} />}
      </Suspense>
    </div>
  );
}
