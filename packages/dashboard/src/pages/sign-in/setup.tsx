import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError, statusOf } from '../../api/errors.ts';
import { useChange } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useGo } from '../../util/route.ts';
import { firstUserQuery } from './first-user.ts';
import { AccessFrame } from './frame.tsx';
import { NewPasswordField } from './password-field.tsx';

/** Creates the first user, who administers the server. */
export default function SetupPage() {
  const first = useQuery(firstUserQuery);
  const go = useGo();
  const exists = first.data === true;
  useEffect(() => {
    if (exists) go(paths.login(), { replace: true });
  }, [exists, go]);
  return (
    <AccessFrame title="Welcome" description="Create your account. It can administer everything on this server.">
      <QueryView query={first} loading={<SkeletonLines lines={6} />}>
        {(known) => (known ? <SkeletonLines lines={6} /> : <SetupForm />)}
      </QueryView>
    </AccessFrame>
  );
}

function SetupForm() {
  const [email, setEmail] = useState('');
  const [name, setName] = useState('');
  const [username, setUsername] = useState('');
  const [password, setPassword] = useState('');
  const create = useChange(
    async () => {
      try {
        await call('POST /users/first', { body: { email, name: name.trim(), username, password } });
      } catch (err) {
        // someone else was faster: they have the account
        if (statusOf(err) === 409) location.replace(paths.login());
        throw err;
      }
      await call('POST /users/login', { body: { email, password } });
      // a server without templates has nothing else to show
      location.replace(paths.templateBuilder());
    },
    { ownError: true },
  );
  return (
    <Form
      onSubmit={() => create.mutate()}
      error={create.error}
      fields={['email', 'name', 'username', 'password']}
      actions={
        <Button
          type="submit"
          look="primary"
          className="w-full"
          pending={create.isPending || create.isSuccess}
          disabled={!email || !username || !password}
        >
          Create account
        </Button>
      }
    >
      <Field label="Email" error={fieldError(create.error, 'email')}>
        <Input
          type="email"
          autoComplete="email"
          autoFocus
          value={email}
          onChange={(event) => {
            const next = event.target.value;
            // a name from the address, until the person writes another one
            if (username === suggested(email)) setUsername(suggested(next));
            setEmail(next);
          }}
        />
      </Field>
      <Field
        label="Username"
        help="Part of the addresses of your workspaces."
        error={fieldError(create.error, 'username')}
      >
        <Input autoComplete="username" value={username} onChange={(event) => setUsername(event.target.value)} />
      </Field>
      <Field label="Full name (optional)" error={fieldError(create.error, 'name')}>
        <Input autoComplete="name" value={name} onChange={(event) => setName(event.target.value)} />
      </Field>
      <NewPasswordField
        label="Password"
        value={password}
        onChange={setPassword}
        error={fieldError(create.error, 'password')}
      />
    </Form>
  );
}

const suggested = (email: string): string =>
  email
    .split('@')[0]!
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 32);
