import { MailCheck } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useChange } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { Link } from '../../ui/link.tsx';
import { paths } from '../../util/paths.ts';
import { AccessFrame } from './frame.tsx';

/** Sends a link to set a forgotten password. */
export default function ResetPasswordPage() {
  const [email, setEmail] = useState('');
  const request = useChange((address: string) => call('POST /users/otp/request', { body: { email: address } }), {
    ownError: true,
  });
  const back = (
    <p className="mt-4 text-center text-sm">
      <Link to={paths.login()}>Back to sign-in</Link>
    </p>
  );
  if (request.isSuccess) {
    return (
      <AccessFrame title="Check your email">
        <div className="flex flex-col items-center gap-3 text-center" role="status">
          <MailCheck size={28} aria-hidden="true" className="text-good" />
          <p>
            If <strong className="wrap-anywhere font-medium">{request.variables}</strong> has an account with a
            password, a link to set a new one is on its way. It is valid for 20 minutes.
          </p>
        </div>
        {back}
      </AccessFrame>
    );
  }
  return (
    <AccessFrame title="Reset your password" description="Enter your email address to get a link.">
      <Form
        onSubmit={() => request.mutate(email.trim())}
        error={request.error}
        actions={
          <Button type="submit" look="primary" className="w-full" pending={request.isPending}>
            Send the link
          </Button>
        }
      >
        <Field label="Email">
          <Input
            type="email"
            name="email"
            autoComplete="username"
            autoFocus
            required
            value={email}
            onChange={(event) => setEmail(event.target.value)}
          />
        </Field>
      </Form>
      {back}
    </AccessFrame>
  );
}
