import type { ExternalAuth } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { CircleCheck } from 'lucide-react';
import { useEffect, useState } from 'react';
import { accountQuery, connectHref } from '../../api/accounts.ts';
import { call } from '../../api/client.ts';
import { apiQuery, queryClient } from '../../api/query.ts';
import { Avatar } from '../../ui/avatar.tsx';
import { Button, buttonClass, LinkButton } from '../../ui/button.tsx';
import { ExternalLink } from '../../ui/link.tsx';
import { Notice } from '../../ui/notice.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useRouteParams } from '../../util/route.ts';
import { DeviceCode } from './device-code.tsx';
import { AccessFrame } from './frame.tsx';
import { forgetSignInError, signInErrorIn } from './sign-in-error.ts';

/** Connects the person's account at a provider. Git, the command line and other pages link here. */
export default function ExternalAuthPage() {
  const { provider: id } = useRouteParams<'provider'>();
  const account = useQuery(accountQuery(id));
  const [failed] = useState(() => signInErrorIn(document.cookie, '/external-auth'));
  useEffect(() => forgetSignInError('/external-auth'), []);
  const name = account.data?.display_name ?? id;
  const connected = account.data?.authenticated === true;
  return (
    <AccessFrame
      title={connected ? `Connected to ${name}` : `Connect ${name}`}
      description={connected ? undefined : `Workspaces and Git in them use your ${name} account on your behalf.`}
    >
      <QueryView query={account} loading={<SkeletonLines lines={3} />}>
        {(data) =>
          data.authenticated ? (
            <Connected account={data} />
          ) : (
            <div className="flex flex-col gap-4">
              {failed ? (
                <Notice tone="bad" title={failed.message} detail={failed.detail} />
              ) : (
                data.validate_error && (
                  <Notice tone="warn" title="Connect your account again" detail={data.validate_error} />
                )
              )}
              {data.device ? (
                <Device id={id} name={name} />
              ) : (
                <a href={connectHref({ id, device: false })} className={`${buttonClass('primary')} w-full`}>
                  Log in with {name}
                </a>
              )}
            </div>
          )
        }
      </QueryView>
    </AccessFrame>
  );
}

function Device({ id, name }: { id: string; name: string }) {
  const device = useQuery({
    ...apiQuery('GET /external-auth/{externalauth}/device', [], { params: { externalauth: id } }),
    staleTime: Number.POSITIVE_INFINITY,
    // a code works once
    gcTime: 0,
  });
  return (
    <QueryView query={device} loading={<SkeletonLines lines={4} />}>
      {(data) => (
        <DeviceCode
          key={data.device_code}
          device={data}
          provider={name}
          onTyped={async (device_code) => {
            await call('POST /external-auth/{externalauth}/device', {
              params: { externalauth: id },
              body: { device_code },
            });
            await queryClient.invalidateQueries({ queryKey: accountQuery(id).queryKey });
          }}
          again={<Button onClick={() => void device.refetch()}>Get another code</Button>}
        />
      )}
    </QueryView>
  );
}

function Connected({ account }: { account: ExternalAuth }) {
  const { user, app_install_url: install, app_installable: installable, installations } = account;
  return (
    <div className="flex flex-col gap-4">
      <p role="status" className="flex items-center gap-2">
        <CircleCheck size={18} aria-hidden="true" className="shrink-0 text-good" />
        {user?.login ? (
          <span className="flex min-w-0 items-center gap-2">
            <Avatar name={user.login} src={user.avatar_url} size={20} />
            <span className="truncate font-medium">{user.login}</span>
          </span>
        ) : (
          'Your account is connected.'
        )}
      </p>
      {install && installable && installations.length === 0 && (
        <Notice
          tone="warn"
          title="The app is not installed anywhere"
          detail="Workspaces reach only the repositories where it is installed."
          actions={<ExternalLink href={install}>Install the app</ExternalLink>}
        />
      )}
      {installations.length > 0 && (
        <div className="text-muted text-sm">
          Installed in{' '}
          {installations.map(({ id, account: at, configure_url }, index) => (
            <span key={id}>
              {index > 0 && ', '}
              <ExternalLink href={configure_url}>{at.login}</ExternalLink>
            </span>
          ))}
          {install && (
            <>
              . <ExternalLink href={install}>Install it elsewhere</ExternalLink>
            </>
          )}
        </div>
      )}
      <p className="text-muted">You can close this window and continue where you left off.</p>
      <LinkButton to={paths.settings('external-auth')}>Your accounts</LinkButton>
    </div>
  );
}
