import type { AuthMethods, User } from '@ropewalk/contract';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { useChange } from '../../api/query.ts';
import { callbackOf, type Provider, signInName } from '../../api/sign-in.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Form } from '../../ui/form.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { paths } from '../../util/paths.ts';
import { PasswordField } from '../sign-in/password-field.tsx';

/** How the person signs in, and the change from a password to a provider. */
export function SignInMethod({ me, methods }: { me: User; methods: AuthMethods }) {
  const [provider, setProvider] = useState<Provider>();
  const offered = (['oidc', 'github'] as const).filter((each) => methods[each].enabled);
  return (
    <Section title="Sign-in method">
      <Facts facts={[['You sign in with', signInName(me.login_type, methods)]]} />
      {me.login_type === 'password' && offered.length > 0 && (
        <div className="flex flex-wrap gap-2">
          {offered.map((each) => (
            <Button key={each} onClick={() => setProvider(each)}>
              Sign in with {signInName(each, methods)} instead
            </Button>
          ))}
        </div>
      )}
      {provider && (
        <ConvertDialog
          provider={provider}
          name={signInName(provider, methods)}
          email={me.email}
          onClose={() => setProvider(undefined)}
        />
      )}
    </Section>
  );
}

function ConvertDialog({
  provider,
  name,
  email,
  onClose,
}: {
  provider: Provider;
  name: string;
  email: string;
  onClose: () => void;
}) {
  const [password, setPassword] = useState('');
  const convert = useChange(
    () => call('POST /users/{user}/convert-login', { params: { user: 'me' }, body: { password, to_type: provider } }),
    {
      ownError: true,
      onSuccess({ state_string }) {
        const query = new URLSearchParams({ oidc_merge_state: state_string, redirect: paths.settings('security') });
        location.assign(`${callbackOf(provider)}?${query}`);
      },
    },
  );
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Sign in with ${name} instead of a password`}
      description={
        <>
          You continue at {name}. Your account there must have the address <b className="wrap-anywhere">{email}</b>.
          Your password no longer works afterwards. Only an administrator can change this back.
        </>
      }
    >
      <div className="pb-3">
        <Form
          inDialog
          onSubmit={() => convert.mutate()}
          error={convert.error}
          fields={['password']}
          actions={
            <Button type="submit" look="primary" pending={convert.isPending || convert.isSuccess} disabled={!password}>
              Continue
            </Button>
          }
        >
          <PasswordField
            label="Current password"
            autoComplete="current-password"
            value={password}
            onChange={setPassword}
            error={fieldError(convert.error, 'password')}
          />
        </Form>
      </div>
    </Dialog>
  );
}
