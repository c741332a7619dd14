import { AppError } from '@platform/kit';

/**
 * The external authentication that an agent asks for. This server has no providers yet, so none ever matches.
 * @throws AppError `invalid` without a match or id, otherwise `not_found`
 */
export function findExternalAuth({ match, id }: { match?: string; id?: string }): never {
  if (!match && !id) throw new AppError('invalid', "'match' or 'id' must be provided as query parameters!");
  throw new AppError('not_found', 'No matching external auth provider was found.', {
    detail: `The agent asked for ${JSON.stringify(id || match)}.`,
  });
}
