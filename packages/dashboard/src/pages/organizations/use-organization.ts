import type { Organization } from '@ropewalk/contract';
import { useSuspenseQuery } from '@tanstack/react-query';
import { organizationsQuery } from '../../api/me.ts';
import { useRouteParams } from '../../util/route.ts';

/** The organization that the address names, by name or id. Undefined if there is none that the person may see. */
export function useNamedOrganization(): Organization | undefined {
  const { organization } = useRouteParams<'organization'>();
  return useSuspenseQuery(organizationsQuery).data.find(
    ({ id, name, is_default }) =>
      name === organization || id === organization || (is_default && organization === 'default'),
  );
}

/** The organization of a page below the organization's layout, which renders none without it. */
export const useOrganization = (): Organization => useNamedOrganization()!;
