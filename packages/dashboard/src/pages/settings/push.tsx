import { useQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { buildInfoQuery } from '../../api/me.ts';
import { canPush, currentPush, endPush, startPush } from '../../api/push.ts';
import { useChange } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { Switch } from '../../ui/choice.tsx';
import { Section } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';

/** Whether this browser gets notifications while no page is open. */
export function BrowserPush() {
  const buildInfo = useQuery(buildInfoQuery);
  const subscription = useQuery({ queryKey: ['push'], queryFn: currentPush, enabled: canPush() });
  const change = useChange((on: boolean) => (on ? startPush(buildInfo.data!.webpush_public_key!) : endPush()), {
    onSettled: () => void subscription.refetch(),
  });
  const test = useChange(() => call('POST /users/{user}/webpush/test', { params: { user: 'me' } }), {
    onSuccess: () => toast({ tone: 'good', title: 'The test message was sent.' }),
  });
  const isOn = change.isPending ? change.variables : Boolean(subscription.data);
  return (
    <Section
      title="This browser"
      description={
        canPush()
          ? 'Shows new notifications also while no page is open.'
          : 'This browser cannot receive notifications. It needs an https address of the server.'
      }
      actions={
        canPush() && (
          <>
            {subscription.data && (
              <Button size="sm" onClick={() => test.mutate()} disabled={test.isPending}>
                Send a test
              </Button>
            )}
            <Switch
              label="Notifications in this browser"
              checked={isOn}
              disabled={!buildInfo.data || change.isPending}
              onChange={(next) => change.mutate(next)}
            />
          </>
        )
      }
    />
  );
}
