import { useState } from 'react';
import { Button } from '../../../ui/button.tsx';
import { Dialog } from '../../../ui/dialog.tsx';
import { Field, Input } from '../../../ui/field.tsx';
import { pathProblem } from '../files/tree.ts';

/** Asks for the path of a file or folder. */
export function PathDialog({
  title,
  action,
  initial,
  taken,
  onSave,
  onClose,
}: {
  title: string;
  action: string;
  initial: string;
  /** The paths of the other files. */
  taken: readonly string[];
  onSave: (path: string) => void;
  onClose: () => void;
}) {
  const [path, setPath] = useState(initial);
  const [tried, setTried] = useState(false);
  const problem = pathProblem(path, taken);
  const save = () => {
    setTried(true);
    if (problem) return;
    onSave(path);
    onClose();
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" onClick={save}>
            {action}
          </Button>
        </>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <Field
          label="Path"
          help="Folders are made from the path: scripts/start.sh."
          error={tried || (path !== '' && path !== initial) ? problem : undefined}
        >
          <Input className="font-mono" value={path} onChange={(event) => setPath(event.target.value)} />
        </Field>
      </form>
    </Dialog>
  );
}
