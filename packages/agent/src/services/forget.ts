import type { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import type { Service } from './service.ts';

const texts = (value: unknown): Set<unknown> => new Set(Array.isArray(value) ? value : []);

/**
 * `{service: 'forget', users, keys}`: the server revokes access of these users or API keys. Their sessions end immediately
 * with everything that runs in them, including sessions that wait for a new connection.
 */
export function forgetService(sessions: ResumableSessions): Service {
  return ({ request, accept }) => {
    const users = texts(request['users']);
    const keys = texts(request['keys']);
    sessions.forget(({ user, key }) => users.has(user) || keys.has(key));
    accept().end();
  };
}
