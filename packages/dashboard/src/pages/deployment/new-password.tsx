import type { User } from '@ropewalk/contract';
import { Button } from '../../ui/button.tsx';
import { CodeLine } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/notice.tsx';

/** Shows the new password of another person once, to be given to them. */
export function NewPasswordDialog({
  user,
  password,
  title,
  onClose,
}: {
  user: User;
  password: string;
  title: string;
  onClose: () => void;
}) {
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      footer={
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <div className="flex flex-col gap-3 pb-2">
        <CodeLine code={password} label="Copy the password" wrap />
        <Notice title={`Give it to ${user.username} in a safe way, and ask them to change it.`} />
      </div>
    </Dialog>
  );
}
