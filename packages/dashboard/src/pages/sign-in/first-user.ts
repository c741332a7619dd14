import { queryOptions } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { statusOf } from '../../api/errors.ts';

/** Whether the server has a first user. Without one, it is set up before anybody signs in. */
export const firstUserQuery = queryOptions({
  queryKey: ['first user'],
  async queryFn() {
    try {
      await call('GET /users/first');
      return true;
    } catch (err) {
      if (statusOf(err) === 404) return false;
      throw err;
    }
  },
});
