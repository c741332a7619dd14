import { useQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { apiQuery } from '../../api/query.ts';
import { buttonClass } from '../../ui/button.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useSearchParams } from '../../util/route.ts';
import { DeviceCode } from './device-code.tsx';
import { AccessFrame } from './frame.tsx';

const deviceQuery = { ...apiQuery('GET /users/oauth2/github/device', []), staleTime: Number.POSITIVE_INFINITY };

/** Signs a person in who types a code at GitHub, for example on their phone. */
export default function DevicePage() {
  const [{ state = '' }] = useSearchParams();
  const device = useQuery(deviceQuery);
  return (
    <AccessFrame title="Sign in with GitHub" description="Type this code at GitHub to sign in here.">
      <QueryView query={device} loading={<SkeletonLines lines={4} />}>
        {(data) => (
          <DeviceCode
            device={data}
            provider="GitHub"
            onTyped={async (code) => {
              const { redirect_url } = await call('GET /users/oauth2/github/callback', { query: { state, code } });
              location.replace(redirect_url);
            }}
            again={
              <a href={paths.login()} className={buttonClass()}>
                Sign in again
              </a>
            }
          />
        )}
      </QueryView>
    </AccessFrame>
  );
}
