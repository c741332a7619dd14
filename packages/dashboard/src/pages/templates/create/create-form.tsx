import type { Organization, TemplateVersion } from '@ropewalk/contract';
import { Lock } from 'lucide-react';
import { useEffect, useEffectEvent, useRef, useState } from 'react';
import { fieldError } from '../../../api/errors.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Button, LinkButton } from '../../../ui/button.tsx';
import { Field, NativeSelect } from '../../../ui/field.tsx';
import { Form } from '../../../ui/form.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Page, Section } from '../../../ui/page.tsx';
import { EmptyState, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { ImportPanel } from '../build/import-panel.tsx';
import { ProvisionerTags } from '../build/provisioner-tags.tsx';
import { useTemplateOrganizations } from '../data.ts';
import { TEMPLATE_FIELDS, TemplateFields } from '../fields.tsx';
import { VariableFields } from '../variable-fields.tsx';
import { UploadField } from './upload-field.tsx';
import { useCreation } from './use-creation.ts';
import { type Draft, type Source, useDraft } from './use-draft.ts';
import { takeRequest } from './use-starter.ts';

export const Loading = () => (
  <Page title="New template" width="narrow">
    <Section>
      <SkeletonLines lines={9} />
    </Section>
  </Page>
);

/** The form of a new template, and the import that it starts. */
export function CreateForm({ source }: { source: Source }) {
  const organizations = useTemplateOrganizations();
  const [organizationId, setOrganizationId] = useState(source.copy?.template.organization_id ?? '');
  const organization = organizations?.find(({ id }) => id === organizationId) ?? organizations?.[0];
  const draft = useDraft(source);
  const creation = useCreation(source, draft);
  const [tried, setTried] = useState(false);
  const submit = () => {
    setTried(true);
    if (!draft.missing && organization) creation.start(organization);
  };
  const { importsFirst, showForm } = useRequestedImport(source.exampleId, organizations, submit);
  const hidden = importsFirst && creation.error === null;
  const { importing } = creation;
  if (!organizations) return <Loading />;
  if (organizations.length === 0) return <NoOrganization />;
  return (
    <Page
      title={source.title}
      width="narrow"
      description={source.description}
      actions={
        draft.uploads ? (
          <LinkButton to={paths.starterTemplates()}>Starter templates</LinkButton>
        ) : (
          <Avatar name={source.values.display_name || source.title} src={source.icon} size={40} square />
        )
      }
    >
      <Form
        onSubmit={submit}
        error={creation.error}
        fields={TEMPLATE_FIELDS}
        actions={
          <>
            {!hidden && (
              <Button type="submit" look="primary" pending={creation.pending}>
                {importing ? 'Try again' : 'Create template'}
              </Button>
            )}
            <LinkButton to={paths.templates()}>Cancel</LinkButton>
          </>
        }
      >
        {!hidden && (
          <DraftFields
            draft={draft}
            organizations={organizations}
            organization={organization}
            onOrganization={setOrganizationId}
            tried={tried}
            error={creation.error}
          />
        )}
        {hidden && !importing && <SkeletonLines lines={9} />}
        {importing && organization && (
          <ImportProgress
            versionId={importing.id}
            organizationName={organization.name}
            onEnd={(version) => {
              if (version.job.status !== 'succeeded') showForm();
              void creation.onImported(version);
            }}
            onReplaced={creation.onReplaced}
          />
        )}
        {tried && draft.missing && draft.variables.length > 0 && (
          <Notice tone="warn" title="Fill in the fields that are marked as required." />
        )}
      </Form>
    </Page>
  );
}

/**
 * Submits the form by itself if a card of the list of starters has requested that. Then `importsFirst` hides the form until
 * something is left to fill in.
 */
function useRequestedImport(
  exampleId: string | undefined,
  organizations: readonly Organization[] | undefined,
  submit: () => void,
) {
  const [importsFirst, setImportsFirst] = useState(false);
  const begin = useEffectEvent(() => {
    // with several organizations the person has to choose one
    if (!takeRequest(exampleId) || organizations?.length !== 1) return;
    setImportsFirst(true);
    submit();
  });
  const known = organizations !== undefined;
  useEffect(() => {
    if (known) begin();
  }, [known]);
  return { importsFirst, showForm: () => setImportsFirst(false) };
}

function DraftFields({
  draft,
  organizations,
  organization,
  onOrganization,
  tried,
  error,
}: {
  draft: Draft;
  organizations: readonly Organization[];
  organization: Organization | undefined;
  onOrganization: (id: string) => void;
  /** Whether the person has submitted the form, so that empty fields are marked. */
  tried: boolean;
  error: unknown;
}) {
  const { values, archive, variables } = draft;
  return (
    <>
      {draft.uploads && (
        <Section title="Source">
          <UploadField
            archive={archive}
            error={tried && !archive ? 'Choose a file or a folder.' : undefined}
            onChange={draft.setArchive}
          />
        </Section>
      )}
      <Section title="Template">
        {organizations.length > 1 && (
          <Field label="Organization" error={fieldError(error, 'organization')}>
            <NativeSelect value={organization?.id} onChange={(event) => onOrganization(event.target.value)}>
              {organizations.map(({ id, name, display_name }) => (
                <option key={id} value={id}>
                  {display_name || name}
                </option>
              ))}
            </NativeSelect>
          </Field>
        )}
        <TemplateFields values={values} onChange={draft.setValues} error={error} />
        {tried && values.name === '' && <p className="text-bad text-sm">Enter a name for the template.</p>}
      </Section>
      {variables.length > 0 && (
        <Section title="Variables" description="Terraform variables have one value for all workspaces.">
          <VariableFields
            variables={variables}
            values={draft.variableValues}
            onChange={draft.setVariableValues}
            showMissing={tried}
          />
        </Section>
      )}
      {organization && (
        <Section title="Provisioning">
          <ProvisionerTags organization={organization} rows={draft.tags} onChange={draft.setTags} />
        </Section>
      )}
    </>
  );
}

/** The import under way. It scrolls into view when it begins. */
function ImportProgress({
  versionId,
  ...panel
}: {
  versionId: string;
  organizationName: string;
  onEnd: (version: TemplateVersion) => void;
  onReplaced: (version: TemplateVersion) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each import begins with its own scroll
  useEffect(() => {
    // its result is a promise in new browsers, which an effect must not return
    box.current?.scrollIntoView({ block: 'nearest' });
  }, [versionId]);
  return (
    <div ref={box}>
      <ImportPanel key={versionId} versionId={versionId} {...panel} />
    </div>
  );
}

function NoOrganization() {
  return (
    <EmptyState isPage icon={Lock} title="You may not create templates">
      Ask an administrator for the role of a template administrator.
    </EmptyState>
  );
}
