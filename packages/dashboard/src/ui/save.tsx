import { Button } from './button.tsx';

/**
 * The buttons of a form for an existing object. They are there only while the form differs from the saved values, so
 * that every Save can act. While a value is not valid, `problem` says why it cannot.
 */
export function SaveButtons({
  changed,
  problem,
  pending,
  onDiscard,
  name = 'Save',
}: {
  changed: boolean;
  problem?: string | undefined;
  pending: boolean;
  /** Sets the form to what is saved. */
  onDiscard: () => void;
  name?: string;
}) {
  if (!changed && !pending) return null;
  return (
    <>
      <Button type="submit" look="primary" pending={pending} disabled={problem !== undefined}>
        {name}
      </Button>
      <Button disabled={pending} onClick={onDiscard}>
        Discard changes
      </Button>
      {problem && <span className="self-center text-muted text-sm">{problem}</span>}
    </>
  );
}
