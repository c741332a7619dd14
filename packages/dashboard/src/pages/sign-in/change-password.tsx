import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { useChange } from '../../api/query.ts';
import { Button, LinkButton } from '../../ui/button.tsx';
import { Form } from '../../ui/form.tsx';
import { Link } from '../../ui/link.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useSearchParams } from '../../util/route.ts';
import { AccessFrame } from './frame.tsx';
import { NewPasswordField, PasswordField } from './password-field.tsx';

/** Sets a new password with the code of a link from a mail. */
export default function ChangePasswordPage() {
  const [{ otp = '', email = '' }] = useSearchParams();
  const [password, setPassword] = useState('');
  const [again, setAgain] = useState('');
  const [differs, setDiffers] = useState(false);
  const go = useGo();
  const change = useChange(
    () => call('POST /users/otp/change-password', { body: { email, one_time_passcode: otp, password } }),
    {
      ownError: true,
      onSuccess: () =>
        go(`${paths.login()}?${new URLSearchParams({ message: 'Your password is changed. Sign in with it.' })}`),
    },
  );
  if (otp === '' || email === '') {
    return (
      <AccessFrame
        title="This link is incomplete"
        description="Open the link in the email again, or request a new one."
      >
        <LinkButton to={paths.resetPassword()} look="primary">
          Get a new link
        </LinkButton>
      </AccessFrame>
    );
  }
  return (
    <AccessFrame title="Set a new password" description={<span className="wrap-anywhere">for {email}</span>}>
      <Form
        onSubmit={() => {
          setDiffers(password !== again);
          if (password === again) change.mutate();
        }}
        error={change.error}
        fields={['password']}
        actions={
          <Button type="submit" look="primary" className="w-full" pending={change.isPending || change.isSuccess}>
            Set the password
          </Button>
        }
      >
        <NewPasswordField
          label="New password"
          name="password"
          autoFocus
          value={password}
          onChange={setPassword}
          error={fieldError(change.error, 'password')}
        />
        <PasswordField
          label="New password again"
          name="again"
          autoComplete="new-password"
          value={again}
          onChange={setAgain}
          error={differs && password !== again ? 'The passwords differ.' : undefined}
        />
      </Form>
      <p className="mt-4 text-center text-sm">
        <Link to={paths.resetPassword()}>Get a new link</Link>
      </p>
    </AccessFrame>
  );
}
