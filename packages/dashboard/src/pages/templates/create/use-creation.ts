import type { Organization, Template, TemplateVersion } from '@ropewalk/contract';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { queryClient, useChange } from '../../../api/query.ts';
import { toast } from '../../../ui/toast.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';
import { templatesQuery } from '../../workspaces/queries.ts';
import { tagRows, tagsOf } from '../build/tags.ts';
import { nameOf, variablesQuery } from '../data.ts';
import { upload, uploadTar } from '../files/upload.ts';
import { valuesToSend } from '../variable-values.ts';
import type { Draft, Source } from './use-draft.ts';

/**
 * The creation of a template, and the import that it is at. First the server imports the source, then the imported
 * version becomes a template, and its page opens. An import that fails for lack of values asks for them in the draft.
 */
export function useCreation(source: Source, draft: Draft) {
  const [importing, setImporting] = useState<{ id: string; ended: boolean }>();
  const start = useImportSource(source, draft, (version) => setImporting({ id: version.id, ended: false }));
  const finish = useCreateTemplate(source, draft);
  return {
    importing,
    pending: start.isPending || finish.isPending || importing?.ended === false,
    // a new import begins without the error of the template before
    error: start.error ?? finish.error,
    start(organization: Organization) {
      finish.reset();
      start.mutate(organization);
    },
    /** Continues after the import of a version. */
    async onImported(version: TemplateVersion) {
      setImporting({ id: version.id, ended: true });
      if (version.job.status === 'succeeded') return finish.mutate(version);
      if (version.job.error_code !== 'REQUIRED_TEMPLATE_VARIABLES') return;
      draft.askFor(await queryClient.fetchQuery(variablesQuery(version.id)));
    },
    /** Follows the import of a version with more tags, which replaces the one before. */
    onReplaced({ id, job }: TemplateVersion) {
      draft.setTags(tagRows(job.tags));
      setImporting({ id, ended: false });
    },
  };
}

function useImportSource(
  { exampleId, composed, copy }: Source,
  draft: Draft,
  onSuccess: (version: TemplateVersion) => void,
) {
  return useChange(
    async ({ id: organization }: Organization) => {
      const origin = exampleId
        ? { example_id: exampleId }
        : {
            file_id: copy ? copy.version.job.file_id : await (composed ? uploadTar(composed) : upload(draft.archive!)),
          };
      return call('POST /organizations/{organization}/templateversions', {
        params: { organization },
        body: {
          ...origin,
          provisioner: 'terraform',
          storage_method: 'file',
          tags: tagsOf(draft.tags),
          user_variable_values: valuesToSend(draft.variables, draft.variableValues),
        },
      });
    },
    { ownError: true, onSuccess },
  );
}

function useCreateTemplate({ exampleId, copy }: Source, draft: Draft) {
  const go = useGo();
  return useChange(
    async (version: TemplateVersion) => {
      const others = await queryClient.fetchQuery(templatesQuery);
      const template = await call('POST /organizations/{organization}/templates', {
        params: { organization: version.organization_id },
        body: { ...draft.values, ...(copy ? settingsOf(copy.template) : {}), template_version_id: version.id },
      });
      return { template, version, isFirst: others.length === 0 };
    },
    {
      ownError: true,
      refetch: ['GET /templates'],
      onSuccess({ template, version, isFirst }) {
        toast({ title: `Created ${nameOf(template)}.` });
        if (exampleId === 'scratch') go(paths.templateEditor(template, version.name));
        // the person who sets up a server wants to see it work. Later templates get settings and permissions first
        else go(isFirst ? paths.createWorkspace(template) : paths.template(template));
      },
    },
  );
}

/** The settings that a copy takes over. */
const COPIED = [
  'default_ttl_ms',
  'activity_bump_ms',
  'allow_user_autostart',
  'allow_user_autostop',
  'allow_user_cancel_workspace_jobs',
  'require_active_version',
  'max_port_share_level',
] as const satisfies (keyof Template)[];

const settingsOf = (template: Template) =>
  Object.fromEntries(COPIED.map((name) => [name, template[name]])) as Pick<Template, (typeof COPIED)[number]>;
