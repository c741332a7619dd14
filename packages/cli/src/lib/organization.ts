import type { Client } from '@ropewalk/client';
import type { Organization } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import { orNotFound } from './not-found.ts';

/**
 * Finds an organization by name or ID. An empty text means the only organization of the user.
 * @throws AppError `not_found` without such an organization, `invalid` for an empty text if the user has several
 */
export async function findOrganization(client: Client, wanted: string): Promise<Organization> {
  const all = await client.call('GET /users/{user}/organizations', { params: { user: 'me' } });
  if (wanted !== '') {
    const found = all.find(({ name, id }) => id === wanted || name.toLowerCase() === wanted.toLowerCase());
    if (found) return found;
    const yours = all.length > 0 ? ` Your organizations: ${all.map(({ name }) => name).join(', ')}.` : '';
    return orNotFound(
      client.call('GET /organizations/{organization}', { params: { organization: wanted } }),
      `Organization ${JSON.stringify(wanted)} not found, or you don't have access to it.${yours}`,
    );
  }
  if (all.length === 1) return all[0]!;
  if (all.length === 0) throw new AppError('not_found', 'You are not a member of an organization.');
  const names = all.map(({ name }) => name).join(', ');
  throw new AppError('invalid', `You are a member of several organizations (${names}). Choose one with --org.`);
}
