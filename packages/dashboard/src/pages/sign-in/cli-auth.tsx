import { useQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { meQuery } from '../../api/me.ts';
import { useChange } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { CodeLine } from '../../ui/copy.tsx';
import { Link } from '../../ui/link.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { AccessFrame } from './frame.tsx';

/** Shows a session token for `coder login`. It takes a click to create one, so that no link does. */
export default function CliAuthPage() {
  const me = useQuery(meQuery);
  const create = useChange(() => call('POST /users/{user}/keys', { params: { user: 'me' } }));
  return (
    <AccessFrame title="Session token" description="For coder login in your terminal">
      <QueryView query={me} loading={<SkeletonLines lines={3} />}>
        {({ username }) => (
          <div className="flex flex-col gap-4">
            <div role="status" className="flex flex-col gap-4">
              {create.data ? (
                <>
                  <CodeLine code={create.data.key} label="Copy the token" wrap />
                  <p className="text-muted">
                    Paste it into your terminal. Anyone who has it can act as you, so keep it secret.
                  </p>
                </>
              ) : (
                <p>
                  The terminal will act as <b>{username}</b>. Continue only if you just ran{' '}
                  <code className="font-mono text-sm">coder login</code>.
                </p>
              )}
            </div>
            {!create.data && (
              <Button look="primary" pending={create.isPending} onClick={() => create.mutate()}>
                Create a token
              </Button>
            )}
            <Link to={paths.workspaces()} className="text-center">
              Go to your workspaces
            </Link>
          </div>
        )}
      </QueryView>
    </AccessFrame>
  );
}
