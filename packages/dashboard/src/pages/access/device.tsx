import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../../api/client.ts';
import { errorText } from '../../api/errors.ts';
import { apiQuery } from '../../api/query.ts';
import { buttonClass } from '../../ui/button.tsx';
import { CodeLine } from '../../ui/copy.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useSearchParams } from '../../util/route.ts';
import { AccessFrame } from './frame.tsx';

const deviceQuery = { ...apiQuery('GET /users/oauth2/github/device', []), staleTime: Number.POSITIVE_INFINITY };

/** Signs a person in who types a code at GitHub, for example on their phone. */
export default function DevicePage() {
  const [{ state = '' }] = useSearchParams();
  const device = useQuery(deviceQuery);
  return (
    <AccessFrame title="Sign in with GitHub" description="Type this code at GitHub to sign in here.">
      <QueryView query={device} loading={<SkeletonLines lines={4} />}>
        {({ device_code, user_code, verification_uri, interval }) => (
          <div className="flex flex-col gap-4">
            <CodeLine code={user_code} label="Copy the code" />
            <a
              href={verification_uri}
              target="_blank"
              rel="noopener noreferrer"
              className={`${buttonClass('primary')} w-full`}
            >
              Open GitHub
            </a>
            <Waiting state={state} code={device_code} interval={interval} />
          </div>
        )}
      </QueryView>
    </AccessFrame>
  );
}

/** Asks whether the code was typed, as often as GitHub allows. */
function Waiting({ state, code, interval }: { state: string; code: string; interval: number }) {
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    let timer = 0;
    let seconds = Math.max(interval, 1);
    let stopped = false;
    const ask = async () => {
      try {
        const { redirect_url } = await call('GET /users/oauth2/github/callback', { query: { state, code } });
        location.replace(redirect_url);
      } catch (err) {
        const { detail } = errorText(err);
        if (stopped) return;
        if (detail === 'slow_down') seconds += 5;
        if (detail === 'authorization_pending' || detail === 'slow_down') later();
        else setError(err);
      }
    };
    const later = () => {
      timer = window.setTimeout(() => void ask(), seconds * 1000);
    };
    later();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [state, code, interval]);
  if (error === undefined) {
    return (
      <p role="status" className="flex items-center justify-center gap-2 text-muted text-sm">
        <Spinner /> Waiting for GitHub…
      </p>
    );
  }
  const text = errorText(error);
  const expired = text.detail === 'expired_token';
  const denied = text.detail === 'access_denied';
  return (
    <Notice
      tone="bad"
      title={expired ? 'The code has expired.' : denied ? 'You declined at GitHub.' : text.title}
      detail={expired || denied ? undefined : text.detail}
      actions={
        <a href={paths.login()} className={buttonClass()}>
          Sign in again
        </a>
      }
    />
  );
}
