import type { User } from '@ropewalk/contract';
import { useSuspenseQuery } from '@tanstack/react-query';
import { Dices } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { organizationsQuery } from '../../api/me.ts';
import { useSitePermissions } from '../../api/permissions.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { NoPermission } from '../../layouts/problems.tsx';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, LinkButton } from '../../ui/button.tsx';
import { Checkbox } from '../../ui/checkbox.tsx';
import { RadioGroup } from '../../ui/choice.tsx';
import { CodeLine } from '../../ui/copy.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { paths } from '../../util/paths.ts';
import { NewPasswordField } from '../sign-in/password-field.tsx';
import { randomPassword } from './random-password.ts';

type SignIn = 'password' | 'oidc' | 'github' | 'service';

export default function NewUserPage() {
  const may = useSitePermissions();
  const organizations = useSuspenseQuery(organizationsQuery).data;
  const methods = useSuspenseQuery(apiQuery('GET /users/authmethods', [])).data;
  const [email, setEmail] = useState('');
  const [username, setUsername] = useState('');
  const [name, setName] = useState('');
  const [signIn, setSignIn] = useState<SignIn>('password');
  const [password, setPassword] = useState('');
  const [memberOf, setMemberOf] = useState<readonly string[]>(
    organizations.filter(({ is_default }) => is_default).map(({ id }) => id),
  );
  const service = signIn === 'service';
  const create = useChange(
    () =>
      call('POST /users', {
        body: {
          ...(service ? { service_account: true } : { email: email.trim(), login_type: signIn }),
          username,
          name: name.trim(),
          ...(signIn === 'password' ? { password } : {}),
          organization_ids: [...memberOf],
        },
      }),
    { ownError: true, refetch: ['GET /users'] },
  );
  const reset = () => {
    for (const set of [setEmail, setUsername, setName, setPassword]) set('');
    create.reset();
  };
  if (may.createUser === false) return <NoPermission />;
  if (create.data)
    return <Created user={create.data} password={signIn === 'password' ? password : ''} onAnother={reset} />;
  return (
    <SidebarPage title="Create a user" area="Users" narrow>
      <Section>
        <Form
          onSubmit={() => create.mutate()}
          error={create.error}
          fields={['email', 'username', 'name', 'password', 'login_type', 'organization_ids']}
          actions={
            <>
              <Button
                type="submit"
                look="primary"
                pending={create.isPending}
                disabled={(!service && !email) || !username || (signIn === 'password' && !password)}
              >
                Create user
              </Button>
              <LinkButton to={paths.users()}>Cancel</LinkButton>
            </>
          }
        >
          {!service && (
            <Field label="Email" error={fieldError(create.error, 'email')}>
              <Input type="email" autoFocus value={email} onChange={(event) => setEmail(event.target.value)} />
            </Field>
          )}
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label="Username" error={fieldError(create.error, 'username')}>
              <Input value={username} onChange={(event) => setUsername(event.target.value)} />
            </Field>
            <Field label="Full name (optional)" error={fieldError(create.error, 'name')}>
              <Input value={name} onChange={(event) => setName(event.target.value)} />
            </Field>
          </div>
          <fieldset className="flex flex-col gap-1.5">
            <legend className="mb-1.5 font-medium text-sm">Sign-in</legend>
            <RadioGroup
              label="Sign-in"
              value={signIn}
              onChange={(value) => setSignIn(value as SignIn)}
              options={[
                { value: 'password', label: 'Password', disabled: !methods.password.enabled },
                ...(methods.oidc.enabled
                  ? [{ value: 'oidc', label: methods.oidc.signInText || 'OpenID Connect' }]
                  : []),
                ...(methods.github.enabled ? [{ value: 'github', label: 'GitHub' }] : []),
                {
                  value: 'service',
                  label: 'None: a service account',
                  help: 'For a program. It has no email address, and uses tokens that an administrator creates.',
                },
              ]}
            />
          </fieldset>
          {signIn === 'password' && (
            <div className="flex flex-col items-start gap-2">
              <div className="w-full">
                <NewPasswordField
                  label="Password"
                  value={password}
                  onChange={setPassword}
                  error={fieldError(create.error, 'password')}
                />
              </div>
              <Button size="sm" icon={Dices} onClick={() => setPassword(randomPassword())}>
                Generate one
              </Button>
            </div>
          )}
          {organizations.length > 1 && (
            <fieldset className="flex flex-col gap-2">
              <legend className="mb-1.5 font-medium text-sm">Organizations</legend>
              {organizations.map(({ id, name: short, display_name }) => (
                <Checkbox
                  key={id}
                  label={display_name || short}
                  checked={memberOf.includes(id)}
                  onChange={(checked) =>
                    setMemberOf(checked ? [...memberOf, id] : memberOf.filter((other) => other !== id))
                  }
                />
              ))}
            </fieldset>
          )}
        </Form>
      </Section>
    </SidebarPage>
  );
}

/** The facts that the holder of a new account needs. `password` is empty without one. */
function Created({ user, password, onAnother }: { user: User; password: string; onAnother: () => void }) {
  const { username, is_service_account: service } = user;
  return (
    <SidebarPage title={`${username} was created`} area="Users" narrow>
      <Section>
        <Facts
          facts={[
            ['Address', location.origin],
            !service && ['Email', user.email],
            password !== '' && ['Password', <CodeLine key="password" code={password} label="Copy the password" wrap />],
            service && [
              'Make a token',
              <CodeLine key="token" code={`coder tokens create --user ${username}`} label="Copy the command" wrap />,
            ],
          ]}
        />
        {password !== '' && <Notice title="Give them the password in a safe way. It is not shown again." />}
        <div className="flex gap-2">
          <LinkButton to={paths.users()} look="primary">
            Done
          </LinkButton>
          <Button onClick={onAnother}>Create another</Button>
        </div>
      </Section>
    </SidebarPage>
  );
}
