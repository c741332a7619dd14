import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../../api/client.ts';
import { meQuery } from '../../api/me.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { afterSignIn } from '../../api/session.ts';
import { callbackOf } from '../../api/sign-in.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { ExternalLink, Link } from '../../ui/link.tsx';
import { Markdown } from '../../ui/markdown.tsx';
import { Notice } from '../../ui/notice.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useSearchParams } from '../../util/route.ts';
import { firstUserQuery } from './first-user.ts';
import { AccessFrame } from './frame.tsx';
import { PasswordField } from './password-field.tsx';
import { forgetSignInError, signInErrorIn } from './sign-in-error.ts';

const authMethodsQuery = apiQuery('GET /users/authmethods', []);

/** Signs a person in and opens the page that needed it. */
export default function LoginPage() {
  const [{ redirect, message }] = useSearchParams();
  const first = useQuery(firstUserQuery);
  const methods = useQuery(authMethodsQuery);
  // a person who is signed in already has nothing to do here
  const session = useQuery({ ...meQuery, retry: false });
  const go = useGo();
  const target = afterSignIn(redirect);
  const [failed] = useState(() => signInErrorIn(document.cookie));
  useEffect(() => forgetSignInError(), []);
  const none = first.data === false;
  useEffect(() => {
    if (none) go(paths.setup(), { replace: true });
  }, [none, go]);
  if (session.data) return <SignedIn name={session.data.username} target={target} />;
  // nobody starts to fill in a form that is about to be replaced
  if (first.isPending || none)
    return (
      <AccessFrame title="Sign in" description={message}>
        <SkeletonLines lines={5} />
      </AccessFrame>
    );
  return (
    <AccessFrame title="Sign in" description={message}>
      <QueryView query={methods} loading={<SkeletonLines lines={5} />}>
        {({ password, password_reset, github, oidc, terms_of_service_url: terms }) => (
          <div className="flex flex-col gap-4">
            {failed && (
              <Notice tone="bad" title={failed.message} detail={failed.markdown ? undefined : failed.detail}>
                {failed.markdown && failed.detail && <Markdown text={failed.detail} />}
              </Notice>
            )}
            {password.enabled && <PasswordForm target={target} mayReset={password_reset.enabled} />}
            {password.enabled && (github.enabled || oidc.enabled) && (
              <div className="flex items-center gap-3 text-muted text-sm">
                <span className="h-px flex-1 bg-line" />
                or
                <span className="h-px flex-1 bg-line" />
              </div>
            )}
            {oidc.enabled && (
              <ProviderLink path={callbackOf('oidc')} target={target} icon={oidc.iconUrl}>
                {oidc.signInText || 'OpenID Connect'}
              </ProviderLink>
            )}
            {github.enabled && (
              <ProviderLink path={callbackOf('github')} target={target} icon="/icon/github.svg">
                GitHub
              </ProviderLink>
            )}
            {terms && (
              <p className="text-center text-muted text-sm">
                By signing in you accept the <ExternalLink href={terms}>terms of service</ExternalLink>.
              </p>
            )}
          </div>
        )}
      </QueryView>
    </AccessFrame>
  );
}

/** Its fields are read when it is sent, since some password managers fill them in without an event. */
function PasswordForm({ target, mayReset }: { target: string; mayReset: boolean }) {
  const signIn = useChange(
    (fields: FormData) => {
      const text = (name: string) => String(fields.get(name) ?? '');
      return call('POST /users/login', { body: { email: text('email').trim(), password: text('password') } });
    },
    { ownError: true, onSuccess: () => location.replace(target) },
  );
  return (
    <Form
      onSubmit={(fields) => signIn.mutate(fields)}
      error={signIn.error}
      actions={
        <Button type="submit" look="primary" className="w-full" pending={signIn.isPending || signIn.isSuccess}>
          Sign in
        </Button>
      }
    >
      <Field label="Email">
        <Input type="email" name="email" autoComplete="username" autoFocus />
      </Field>
      <PasswordField label="Password" name="password" autoComplete="current-password" />
      {mayReset && (
        <Link to={paths.resetPassword()} className="self-end text-sm">
          Forgot password?
        </Link>
      )}
    </Form>
  );
}

/** The server's own route goes on to the provider and comes back with a session. */
function ProviderLink({
  path,
  target,
  icon,
  children,
}: {
  path: string;
  target: string;
  icon: string;
  children: string;
}) {
  const { pathname, search, hash } = new URL(target);
  return (
    <a href={`${path}?${new URLSearchParams({ redirect: pathname + search + hash })}`} className={buttonClass()}>
      {icon && <img src={icon} alt="" width={16} height={16} />}
      {children}
    </a>
  );
}

/** A page of the dashboard opens immediately. An app waits for a click, since it may have sent the person here in error. */
function SignedIn({ name, target }: { name: string; target: string }) {
  const isApp = /^\/api\/|\/apps\//.test(new URL(target).pathname);
  useEffect(() => {
    if (!isApp) location.replace(target);
  }, [isApp, target]);
  return (
    <AccessFrame title="You are signed in" description={`as ${name}`}>
      <a href={target} className={`${buttonClass('primary')} w-full`}>
        Continue
      </a>
    </AccessFrame>
  );
}
