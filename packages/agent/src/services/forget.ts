import type { ResumableSessions } from '@platform/wire/resume/sessions';
import type { Service } from './service.ts';

const texts = (value: unknown): Set<unknown> => new Set(Array.isArray(value) ? value : []);

/**
 * `{service: 'forget', users, keys}`: the server's word that these people or API keys may no longer reach the workspace.
 * Their sessions end at once, also those that wait for a carrier, with what runs in them.
 */
export function forgetService(sessions: ResumableSessions): Service {
  return ({ request, accept }) => {
    const users = texts(request['users']);
    const keys = texts(request['keys']);
    sessions.forget(({ user, key }) => users.has(user) || keys.has(key));
    accept().end();
  };
}
