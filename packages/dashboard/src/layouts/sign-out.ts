import { call } from '../api/client.ts';
import { stopEvents } from '../api/events.ts';
import { queryClient, useChange } from '../api/query.ts';
import { sendWaitingStops } from '../pages/workspaces/delayed-stop.ts';
import { paths } from '../util/paths.ts';

async function signOut(): Promise<unknown> {
  if ('serviceWorker' in navigator) {
    const { endPush } = await import('../api/push.ts');
    await endPush().catch(() => {});
  }
  // afterwards the person may not send them
  await sendWaitingStops();
  return call('POST /users/logout');
}

/** Ends the session and opens the sign-in page. */
export const useSignOut = () =>
  useChange(signOut, {
    onSuccess() {
      stopEvents();
      queryClient.clear();
      location.assign(paths.login());
    },
  });
