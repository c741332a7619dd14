import type { Workspace } from '@ropewalk/contract';
import { useState } from 'react';
import { errorLine } from '../../../api/errors.ts';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { Dialog } from '../../../ui/dialog.tsx';
import { Field, Input } from '../../../ui/field.tsx';
import { orderBuild } from '../queries.ts';
import { BULK_ACTIONS, countedWorkspaces } from './bulk-actions.ts';
import { type BulkAction, bodyOf, type MayOf, planOf } from './selection.ts';

/** How many builds are ordered at the same time. */
const AT_ONCE = 5;

type Outcome = 'waiting' | 'ordered' | { error: string };

/** Shows what will happen to each workspace, does it, and shows what happened. */
export default function BulkDialog({
  action,
  workspaces,
  mayOf,
  onClose,
  onDone,
}: {
  action: BulkAction;
  workspaces: readonly Workspace[];
  mayOf: MayOf;
  onClose: () => void;
  onDone: () => void;
}) {
  const plans = workspaces.map((workspace) => ({ workspace, plan: planOf(action, workspace, mayOf) }));
  const affected = plans.filter(({ plan }) => 'does' in plan).map(({ workspace }) => workspace);
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>();
  const [typed, setTyped] = useState('');
  const name = BULK_ACTIONS.find((one) => one.action === action)!.name;
  const running = outcomes !== undefined && [...outcomes.values()].includes('waiting');
  const failures = [...(outcomes?.values() ?? [])].filter((outcome) => typeof outcome === 'object').length;
  const word = String(affected.length);
  const ready = action !== 'delete' || typed === word;
  const run = async () => {
    const state = new Map<string, Outcome>(affected.map(({ id }) => [id, 'waiting']));
    const publish = () => setOutcomes(new Map(state));
    publish();
    const queue = [...affected];
    const work = async () => {
      for (let next = queue.shift(); next; next = queue.shift()) {
        try {
          await orderBuild(next.id, bodyOf(action, next));
          state.set(next.id, 'ordered');
        } catch (err) {
          state.set(next.id, { error: errorLine(err) });
        }
        publish();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if ([...state.values()].every((outcome) => outcome === 'ordered')) {
      onClose();
      onDone();
    }
  };
  const finished = outcomes !== undefined && !running;
  return (
    <Dialog
      open
      wide
      onClose={() => !running && onClose()}
      title={`${name} ${countedWorkspaces(affected.length)}`}
      description={affected.length < plans.length && `Nothing happens to the other ${plans.length - affected.length}.`}
      footer={
        finished ? (
          <Button look="primary" onClick={onClose}>
            Close
          </Button>
        ) : (
          <>
            <Button onClick={onClose} disabled={running}>
              Cancel
            </Button>
            <Button
              look={action === 'delete' ? 'danger' : 'primary'}
              pending={running}
              disabled={affected.length === 0 || !ready}
              onClick={() => void run()}
            >
              {name}
            </Button>
          </>
        )
      }
    >
      <div className="flex flex-col gap-4">
        {failures > 0 && finished && (
          <p role="alert" className="text-bad">
            {failures} of {affected.length} failed. The reasons are in the list.
          </p>
        )}
        <ul
          aria-label="What will happen"
          // a long list scrolls, also by keys
          // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
          tabIndex={0}
          className="max-h-80 divide-y divide-line overflow-y-auto rounded-md border border-line"
        >
          {plans.map(({ workspace, plan }) => {
            const outcome = outcomes?.get(workspace.id);
            const text =
              outcome === undefined
                ? 'does' in plan
                  ? plan.does
                  : plan.skip
                : outcome === 'waiting'
                  ? 'Waiting…'
                  : outcome === 'ordered'
                    ? 'Done'
                    : outcome.error;
            return (
              <li key={workspace.id} className="flex flex-wrap items-baseline gap-x-4 gap-y-0.5 px-3 py-2">
                <span className="min-w-0 flex-1 truncate font-medium">
                  <span className="font-normal text-muted">{workspace.owner_name}/</span>
                  {workspace.name}
                </span>
                <span
                  className={cx(
                    'text-sm',
                    typeof outcome === 'object' ? 'text-bad' : 'does' in plan ? 'text-text' : 'text-muted',
                  )}
                >
                  {text}
                </span>
              </li>
            );
          })}
        </ul>
        {action === 'delete' && !finished && affected.length > 0 && (
          <Field
            label={
              <>
                Type <b>{word}</b>, the number of workspaces, to confirm
              </>
            }
            help="This cannot be undone. Files that are only in these workspaces are lost."
          >
            <Input value={typed} onChange={(event) => setTyped(event.target.value)} />
          </Field>
        )}
      </div>
    </Dialog>
  );
}
