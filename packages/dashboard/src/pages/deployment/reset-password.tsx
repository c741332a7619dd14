import type { User } from '@ropewalk/contract';
import { Dices } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { useChange } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Form } from '../../ui/form.tsx';
import { NewPasswordField } from '../sign-in/password-field.tsx';
import { NewPasswordDialog } from './new-password.tsx';
import { randomPassword } from './random-password.ts';

/** Sets a new password for another person. */
export function ResetPasswordDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const [password, setPassword] = useState('');
  const save = useChange(() => call('PUT /users/{user}/password', { params: { user: user.id }, body: { password } }), {
    ownError: true,
  });
  if (save.isSuccess) {
    return (
      <NewPasswordDialog
        user={user}
        password={password}
        title={`The password of ${user.username} was changed`}
        onClose={onClose}
      />
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
          inDialog
          onSubmit={() => save.mutate()}
          error={save.error}
          fields={['password']}
          actions={
            <>
              <Button icon={Dices} onClick={() => setPassword(randomPassword())}>
                Generate one
              </Button>
              <Button type="submit" look="primary" pending={save.isPending} disabled={!password}>
                Reset password
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
