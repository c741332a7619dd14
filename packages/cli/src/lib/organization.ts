import type { Client } from '@platform/client';
import type { Organization } from '@platform/contract';
import { AppError } from '@platform/kit/errors';
import { orNotFound } from './not-found.ts';

/** The named organization, or the only one of the person. */
export async function findOrganization(client: Client, wanted: string): Promise<Organization> {
  const all = await client.call('GET /users/{user}/organizations', { params: { user: 'me' } });
  if (wanted !== '') {
    const found = all.find(({ name, id }) => id === wanted || name.toLowerCase() === wanted.toLowerCase());
    if (found) return found;
    const yours = all.length > 0 ? ` Yours: ${all.map(({ name }) => name).join(', ')}.` : '';
    return orNotFound(
      client.call('GET /organizations/{organization}', { params: { organization: wanted } }),
      `There is no organization ${JSON.stringify(wanted)} that you can see.${yours}`,
    );
  }
  if (all.length === 1) return all[0]!;
  if (all.length === 0) throw new AppError('not_found', 'You are in no organization.');
  const names = all.map(({ name }) => name).join(', ');
  throw new AppError('invalid', `You are in several organizations (${names}): choose one with --org.`);
}
