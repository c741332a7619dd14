import { useSuspenseQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { useMe } from '../../api/me.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button } from '../../ui/button.tsx';
import { Form } from '../../ui/form.tsx';
import { Section } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { NewPasswordField, PasswordField } from '../sign-in/password-field.tsx';
import { Sessions } from './sessions.tsx';
import { SignInMethod } from './sign-in-method.tsx';

export default function SecurityPage() {
  const me = useMe();
  const methods = useSuspenseQuery(apiQuery('GET /users/authmethods', [])).data;
  return (
    <SidebarPage title="Security" area="Settings" narrow>
      <SignInMethod me={me} methods={methods} />
      {me.login_type === 'password' && (
        <Section title="Password">
          <PasswordForm username={me.username} />
        </Section>
      )}
      <Sessions />
    </SidebarPage>
  );
}

function PasswordForm({ username }: { username: string }) {
  const [old, setOld] = useState('');
  const [password, setPassword] = useState('');
  const [again, setAgain] = useState('');
  const save = useChange(
    () => call('PUT /users/{user}/password', { params: { user: 'me' }, body: { old_password: old, password } }),
    {
      ownError: true,
      onSuccess() {
        setOld('');
        setPassword('');
        setAgain('');
        toast({ title: 'Your password was changed.', detail: 'Your other sessions have ended.' });
      },
    },
  );
  const differ = again !== '' && again !== password;
  return (
    <Form
      onSubmit={() => !differ && save.mutate()}
      error={save.error}
      fields={['old_password', 'password']}
      actions={
        <Button
          type="submit"
          look="primary"
          pending={save.isPending}
          disabled={!old || !password || password !== again}
        >
          Change password
        </Button>
      }
    >
      {/* for password managers */}
      <input type="hidden" autoComplete="username" value={username} readOnly />
      <PasswordField
        label="Current password"
        autoComplete="current-password"
        value={old}
        onChange={setOld}
        error={fieldError(save.error, 'old_password')}
      />
      <NewPasswordField
        label="New password"
        value={password}
        onChange={setPassword}
        error={fieldError(save.error, 'password')}
      />
      <PasswordField
        label="New password again"
        autoComplete="new-password"
        value={again}
        onChange={setAgain}
        error={differ ? 'The two passwords differ.' : undefined}
      />
    </Form>
  );
}
