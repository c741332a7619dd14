import { call } from '../api/client.ts';
import { stopEvents } from '../api/events.ts';
import { queryClient, useChange } from '../api/query.ts';
import { paths } from '../util/paths.ts';

/** Ends the session and opens the sign-in page. */
export const useSignOut = () =>
  useChange(() => call('POST /users/logout'), {
    onSuccess() {
      stopEvents();
      queryClient.clear();
      location.assign(paths.login());
    },
  });
