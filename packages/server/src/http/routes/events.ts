import type { ChangeFeed } from '../../app/follow/change-feed.ts';
import { defineHandlers } from '../exchange.ts';
import { followAsNamedEvents } from '../follow.ts';

/** The stream of changes that a page of the dashboard follows. */
export function eventHandlers(feed: ChangeFeed) {
  return defineHandlers({
    'GET /events': async (ctx, { query, http }) => {
      const header = http.request.headers['last-event-id'];
      const last = (typeof header === 'string' && header) || query.last_event_id || undefined;
      await followAsNamedEvents(ctx, http.reply, feed.source(ctx, last));
    },
  });
}
