import type { Template, TemplateVersion, TemplateVersionVariable } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Variable } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';
import { Form } from '../../../ui/form.tsx';
import { Section } from '../../../ui/page.tsx';
import { SaveButtons } from '../../../ui/save.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { toast } from '../../../ui/toast.tsx';
import { ImportPanel } from '../build/import-panel.tsx';
import { useTemplate, variablesQuery, versionQuery } from '../data.ts';
import { usePromote } from '../template/versions.tsx';
import { VariableFields } from '../variable-fields.tsx';
import { missingVariables, valuesOf, valuesToSend } from '../variable-values.ts';
import { SettingsPage } from './settings-page.tsx';

/** The values of the active version's Terraform variables. Other values are another version with the same source. */
export default function VariableSettings() {
  const template = useTemplate();
  const version = useQuery(versionQuery(template.active_version_id));
  const variables = useQuery(variablesQuery(template.active_version_id));
  return (
    <SettingsPage template={template} title="Variables">
      <QueryView query={variables} loading={<SkeletonLines lines={6} />}>
        {(found) => (
          <QueryView query={version} loading={<SkeletonLines lines={6} />}>
            {(active) =>
              found.length === 0 ? (
                <Section>
                  <EmptyState icon={Variable} title="This template has no variables">
                    Declare a Terraform variable in the source, and its value can be set here for all workspaces.
                  </EmptyState>
                </Section>
              ) : (
                <Variables key={active.id} template={template} active={active} variables={found} />
              )
            }
          </QueryView>
        )}
      </QueryView>
    </SettingsPage>
  );
}

function Variables({
  template,
  active,
  variables,
}: {
  template: Template;
  active: TemplateVersion;
  variables: readonly TemplateVersionVariable[];
}) {
  const saved = valuesOf(variables);
  const [values, setValues] = useState(saved);
  const [tried, setTried] = useState(false);
  const [importing, setImporting] = useState<{ id: string; ended: boolean }>();
  const promote = usePromote(template);
  const save = useChange(
    () =>
      call('POST /organizations/{organization}/templateversions', {
        params: { organization: template.organization_id },
        body: {
          template_id: template.id,
          file_id: active.job.file_id,
          provisioner: 'terraform',
          storage_method: 'file',
          message: 'Change variables',
          tags: active.job.tags,
          user_variable_values: valuesToSend(variables, values),
        },
      }),
    { ownError: true, onSuccess: ({ id }) => setImporting({ id, ended: false }) },
  );
  return (
    <>
      <Section
        title="Variables"
        description="Terraform variables have one value for all workspaces. Saving imports the source again and makes the new version active."
      >
        <Form
          onSubmit={() => {
            setTried(true);
            if (missingVariables(variables, values).length === 0) save.mutate();
          }}
          error={save.error ?? promote.error}
          actions={
            <SaveButtons
              changed={variables.some(({ name }) => values[name] !== saved[name])}
              pending={save.isPending || promote.isPending || importing?.ended === false}
              onDiscard={() => {
                setTried(false);
                setValues(saved);
              }}
            />
          }
        >
          <VariableFields variables={variables} values={values} onChange={setValues} showMissing={tried} />
        </Form>
      </Section>
      {importing && (
        <ImportPanel
          key={importing.id}
          versionId={importing.id}
          organizationName={template.organization_name}
          onReplaced={({ id }) => setImporting({ id, ended: false })}
          onEnd={(version) => {
            setImporting({ id: version.id, ended: true });
            if (version.job.status === 'succeeded') promote.mutate(version);
            else toast({ tone: 'bad', title: 'The values were not saved.', detail: 'The import did not succeed.' });
          }}
        />
      )}
    </>
  );
}
