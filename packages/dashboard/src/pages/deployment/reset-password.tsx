import type { User } from '@platform/contract';
import { Dices } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { useChange } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { CodeLine } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Form } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { NewPasswordField } from '../access/password-field.tsx';
import { randomPassword } from './random-password.ts';

/** Sets a new password for another person. */
export function ResetPasswordDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const [password, setPassword] = useState('');
  const save = useChange(() => call('PUT /users/{user}/password', { params: { user: user.id }, body: { password } }), {
    ownError: true,
  });
  if (save.isSuccess) {
    return (
      <Dialog
        open
        onClose={onClose}
        title={`The password of ${user.username} was changed`}
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
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Reset the password of ${user.username}`}
      description="They are signed out everywhere."
    >
      <div className="pb-3">
        <Form
          onSubmit={() => save.mutate()}
          error={save.error}
          fields={['password']}
          actions={
            <>
              <Button type="submit" look="primary" pending={save.isPending} disabled={!password}>
                Reset password
              </Button>
              <Button icon={Dices} onClick={() => setPassword(randomPassword())}>
                Generate one
              </Button>
            </>
          }
        >
          <NewPasswordField
            label="New password"
            autoFocus
            value={password}
            onChange={setPassword}
            error={fieldError(save.error, 'password')}
          />
        </Form>
      </div>
    </Dialog>
  );
}
