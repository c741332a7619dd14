import { getUser } from '../../app/user/get.ts';
import { defineHandlers } from '../exchange.ts';

export const userHandlers = defineHandlers({
  'GET /users/{user}': (ctx, { params }) => getUser(ctx, params.user),
});
