import type { TemplateVersion } from '@ropewalk/contract';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';

/**
 * Imports the source of a version whose import waits again, with the tags that its template names. The new version takes
 * over the name, the message and the variables, and the server archives the old one.
 */
export function useImportAgain(onSuccess: (version: TemplateVersion) => void = () => {}) {
  return useChange(
    ({ id, organization_id, job }: TemplateVersion) =>
      call('POST /organizations/{organization}/templateversions', {
        params: { organization: organization_id },
        body: {
          replaces: id,
          provisioner: 'terraform',
          storage_method: 'file',
          tags: { ...job.tags, ...job.pending_reason?.template_tags },
        },
      }),
    {
      refetch: [
        'GET /templateversions/{templateversion}',
        'GET /templates/{template}/versions',
        'GET /templates/{template}/versions/{templateversionname}',
      ],
      onSuccess,
    },
  );
}

export type ImportAgain = ReturnType<typeof useImportAgain>;
