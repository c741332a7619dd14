import type { Template } from '@ropewalk/contract';
import { useEffect, useRef } from 'react';
import { paths } from '../../../util/paths.ts';
import { useGo, useRouteParams } from '../../../util/route.ts';

/**
 * Replaces other spellings of the names in the address, such as the organization `default`, with the names that links
 * have.
 */
export function useCanonicalAddress(template: Template | undefined): void {
  const { organization, template: name } = useRouteParams<'organization' | 'template'>();
  const go = useRef(useGo());
  const current = template && paths.template({ organization_name: organization, name });
  const canonical = template && paths.template(template);
  useEffect(() => {
    if (!canonical || canonical === current) return;
    const rest = location.pathname.split('/').slice(4).join('/');
    go.current(`${canonical}${rest ? `/${rest}` : ''}${location.search}`, { replace: true });
  }, [canonical, current]);
}
