import type { Template, UpdateTemplateMeta } from '@ropewalk/contract';
import { call } from '../../../api/client.ts';
import { queryClient, useChange } from '../../../api/query.ts';
import { toast } from '../../../ui/toast.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';
import { templateQuery } from '../data.ts';

/** Changes a template's settings. Absent fields stay. After a change of the name, `page` opens at its new address. */
export function useSave(template: Template, page: (template: Template) => string = paths.templateSettings) {
  const go = useGo();
  return useChange(
    (body: UpdateTemplateMeta) => call('PATCH /templates/{template}', { params: { template: template.id }, body }),
    {
      ownError: true,
      refetch: ['GET /templates'],
      onSuccess(saved) {
        queryClient.setQueryData(templateQuery(saved.organization_name, saved.name).queryKey, saved);
        toast({ title: 'Saved.' });
        if (saved.name !== template.name) go(page(saved), { replace: true });
      },
    },
  );
}
