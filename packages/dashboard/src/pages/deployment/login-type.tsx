import type { AuthMethods, User } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Dices } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { signInName } from '../../api/sign-in.ts';
import { Button } from '../../ui/button.tsx';
import { RadioGroup } from '../../ui/choice.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { NewPasswordField } from '../sign-in/password-field.tsx';
import { NewPasswordDialog } from './new-password.tsx';
import { randomPassword } from './random-password.ts';

type Type = 'password' | 'oidc' | 'github' | 'none';

const HELP: Partial<Record<Type, string>> = {
  none: 'For machines. They use tokens that an administrator creates.',
};

/** Changes how another person signs in. */
export function LoginTypeDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const methods = useQuery(apiQuery('GET /users/authmethods', [])).data;
  const [type, setType] = useState<Type>();
  const [password, setPassword] = useState('');
  const save = useChange(
    () =>
      call('POST /users/{user}/convert-login', {
        params: { user: user.id },
        body: { to_type: type!, password: type === 'password' ? password : '' },
      }),
    { ownError: true, refetch: ['GET /users'], onSuccess: () => type !== 'password' && onClose() },
  );
  if (save.isSuccess) {
    return (
      <NewPasswordDialog
        user={user}
        password={password}
        title={`${user.username} signs in with a password now`}
        onClose={onClose}
      />
    );
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title={`How ${user.username} signs in`}
      description={`Current method: ${signInName(user.login_type, methods)}. The change signs them out everywhere.`}
    >
      <div className="pb-3">
        <Form
          inDialog
          onSubmit={() => save.mutate()}
          error={save.error}
          fields={['password']}
          actions={
            <>
              {type === 'password' && (
                <Button icon={Dices} onClick={() => setPassword(randomPassword())}>
                  Generate a password
                </Button>
              )}
              <Button
                type="submit"
                look="primary"
                pending={save.isPending}
                disabled={!type || (type === 'password' && !password)}
              >
                Change
              </Button>
            </>
          }
        >
          <Field label="New sign-in method">
            <RadioGroup
              value={type ?? ''}
              onChange={(value) => setType(value as Type)}
              options={typesOf(methods)
                .filter((each) => each !== user.login_type)
                .map((each) => ({ value: each, label: signInName(each, methods), help: HELP[each] }))}
            />
          </Field>
          {type === 'password' && (
            <NewPasswordField
              label="New password"
              value={password}
              onChange={setPassword}
              error={fieldError(save.error, 'password')}
            />
          )}
        </Form>
      </div>
    </Dialog>
  );
}

const typesOf = (methods: AuthMethods | undefined): Type[] => [
  'password',
  ...(['oidc', 'github'] as const).filter((each) => methods?.[each].enabled),
  'none',
];
