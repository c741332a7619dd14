import type { Organization, Template, TemplateVersion, TemplateVersionVariable } from '@ropewalk/contract';
import { currentStarterId } from '@ropewalk/rules/starter-ids';
import { useQuery } from '@tanstack/react-query';
import { FileArchive, FolderOpen, Lock, SearchX } from 'lucide-react';
import { useEffect, useEffectEvent, useId, useRef, useState } from 'react';
import { call } from '../../../api/client.ts';
import { fieldError } from '../../../api/errors.ts';
import { apiQuery, queryClient, useChange } from '../../../api/query.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Button, LinkButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { Field, NativeSelect } from '../../../ui/field.tsx';
import { Form } from '../../../ui/form.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Page, Section } from '../../../ui/page.tsx';
import { EmptyState, ErrorView, SkeletonLines } from '../../../ui/states.tsx';
import type { TagRow } from '../../../ui/tags.tsx';
import { toast } from '../../../ui/toast.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo, useSearchParams } from '../../../util/route.ts';
import { templatesQuery } from '../../workspaces/queries.ts';
import { ImportPanel } from '../build/import-panel.tsx';
import { ProvisionerTags } from '../build/provisioner-tags.tsx';
import { tagRows, tagsOf } from '../build/tags.ts';
import { examplesQuery, nameOf, useTemplateOrganizations, variablesQuery, versionQuery } from '../data.ts';
import { TEMPLATE_FIELDS, TemplateFields, type TemplateValues } from '../fields.tsx';
import { sizeOf } from '../source/source-view.tsx';
import { type Archive, packFolder, readArchive, templateName, upload } from '../source/upload.ts';
import { missingVariables, VariableFields, type VariableValues, valuesOf, valuesToSend } from '../variable-fields.tsx';
import { takeRequest } from './use-starter.ts';

/** Where the source of a new template comes from. */
interface Source {
  title: string;
  description: string;
  icon: string;
  /** Suggested values of the form. */
  values: TemplateValues;
  /** What to import. Without either, a person uploads an archive. */
  exampleId?: string;
  copy?: { version: TemplateVersion; variables: readonly TemplateVersionVariable[]; template: Template };
}

/** Creates a template from a starter, another template, or an upload. */
export default function CreateTemplate() {
  const [{ exampleId, fromTemplate }] = useSearchParams();
  return exampleId ? (
    <FromExample key={exampleId} id={currentStarterId(exampleId)} />
  ) : fromTemplate ? (
    <FromTemplate key={fromTemplate} id={fromTemplate} />
  ) : (
    <CreateForm
      source={{
        title: 'New template',
        description: 'Upload a folder or an archive with Terraform files.',
        icon: '',
        values: { name: '', display_name: '', description: '', icon: '' },
      }}
    />
  );
}

const Loading = () => (
  <Page title="New template" width="narrow">
    <Section>
      <SkeletonLines lines={9} />
    </Section>
  </Page>
);

function FromExample({ id }: { id: string }) {
  const examples = useQuery(examplesQuery);
  const templates = useQuery(templatesQuery);
  // the names as they were when the form opened: the form makes one more
  const [used, setUsed] = useState<ReadonlySet<string>>();
  if (templates.data && !used) setUsed(new Set(templates.data.map(({ name }) => name)));
  const failed = [examples, templates].find(({ isError }) => isError);
  if (failed) return <ErrorView error={failed.error} retry={() => void failed.refetch()} isPage />;
  if (!examples.data || !used) return <Loading />;
  const example = examples.data.find((each) => each.id === id);
  if (!example) {
    return (
      <EmptyState
        isPage
        icon={SearchX}
        title={`Starter template "${id}" not found`}
        action={<LinkButton to={paths.starterTemplates()}>All starter templates</LinkButton>}
      >
        This server has no starter template with this name.
      </EmptyState>
    );
  }
  const scratch = id === 'scratch';
  return (
    <CreateForm
      source={{
        title: scratch ? 'New template from scratch' : `New template from ${example.name}`,
        description: scratch ? 'Starts with a minimal main.tf, which opens in the editor.' : example.description,
        icon: example.icon,
        exampleId: id,
        values: scratch
          ? { name: '', display_name: '', description: '', icon: '' }
          : {
              name: freeName(templateName(example.id), used),
              display_name: example.name,
              description: example.description,
              icon: example.icon,
            },
      }}
    />
  );
}

/** The name, with a number if a template has it. */
function freeName(name: string, used: ReadonlySet<string>): string {
  if (!used.has(name)) return name;
  let number = 2;
  while (used.has(`${name}-${number}`)) number++;
  return `${name}-${number}`;
}

function FromTemplate({ id }: { id: string }) {
  const template = useQuery(
    apiQuery('GET /templates/{template}', [{ kind: 'template', id }], { params: { template: id } }),
  );
  const active = template.data?.active_version_id ?? '';
  const version = useQuery({ ...versionQuery(active), enabled: active !== '' });
  const variables = useQuery({ ...variablesQuery(active), enabled: active !== '' });
  const error = template.error ?? version.error ?? variables.error;
  if (error) return <ErrorView error={error} retry={() => void template.refetch()} isPage />;
  if (!template.data || !version.data || !variables.data) return <Loading />;
  const { name, display_name, description, icon } = template.data;
  return (
    <CreateForm
      source={{
        title: `Copy of ${nameOf(template.data)}`,
        description: `Copies the source and the settings of version ${version.data.name}.`,
        icon,
        values: {
          name: `${name.slice(0, 27)}-copy`,
          display_name: display_name && `${display_name.slice(0, 56)} (copy)`,
          description,
          icon,
        },
        copy: { template: template.data, version: version.data, variables: variables.data },
      }}
    />
  );
}

function CreateForm({ source }: { source: Source }) {
  const organizations = useTemplateOrganizations();
  const { copy, exampleId } = source;
  const [organizationId, setOrganizationId] = useState(copy?.template.organization_id ?? '');
  const organization = organizations?.find(({ id }) => id === organizationId) ?? organizations?.[0];
  const [values, setValues] = useState(source.values);
  const [archive, setArchive] = useState<Archive>();
  const [tags, setTags] = useState<readonly TagRow[]>(copy ? tagRows(copy.version.job.tags) : []);
  const [variables, setVariables] = useState(copy?.variables ?? []);
  const [variableValues, setVariableValues] = useState<VariableValues>(() => valuesOf(variables));
  const [tried, setTried] = useState(false);
  // the import that a card of the list began: the form appears only if something is left to fill in
  const [importsFirst, setImportsFirst] = useState(false);
  const [importing, setImporting] = useState<{ id: string; ended: boolean }>();
  const go = useGo();
  const panel = useRef<HTMLDivElement>(null);
  const importId = importing?.id;
  useEffect(() => {
    if (importId) panel.current?.scrollIntoView({ block: 'nearest' });
  }, [importId]);

  const start = useChange(
    async ({ id: organization }: Organization) => {
      const origin = exampleId
        ? { example_id: exampleId }
        : { file_id: copy ? copy.version.job.file_id : await upload(archive!) };
      return call('POST /organizations/{organization}/templateversions', {
        params: { organization },
        body: {
          ...origin,
          provisioner: 'terraform',
          storage_method: 'file',
          tags: tagsOf(tags),
          user_variable_values: valuesToSend(variables, variableValues),
        },
      });
    },
    { ownError: true, onSuccess: ({ id }) => setImporting({ id, ended: false }) },
  );
  const finish = useChange(
    async (version: TemplateVersion) => {
      const others = await queryClient.fetchQuery(templatesQuery);
      const template = await call('POST /organizations/{organization}/templates', {
        params: { organization: version.organization_id },
        body: { ...values, ...(copy ? settingsOf(copy.template) : {}), template_version_id: version.id },
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
  const ended = async (version: TemplateVersion) => {
    setImporting({ id: version.id, ended: true });
    if (version.job.status === 'succeeded') return finish.mutate(version);
    setImportsFirst(false);
    if (version.job.error_code !== 'REQUIRED_TEMPLATE_VARIABLES') return;
    const needed = await queryClient.fetchQuery(variablesQuery(version.id));
    setVariables(needed);
    setVariableValues((before) => ({ ...valuesOf(needed), ...before }));
  };
  const uploads = !exampleId && !copy;
  const missing = values.name === '' || (uploads && !archive) || missingVariables(variables, variableValues).length > 0;
  const submit = () => {
    setTried(true);
    if (missing || !organization) return;
    finish.reset();
    start.mutate(organization);
  };
  const begin = useEffectEvent(() => {
    // with several organizations the person has to choose one
    if (!takeRequest(exampleId) || organizations?.length !== 1) return;
    setImportsFirst(true);
    submit();
  });
  const known = organizations !== undefined;
  const hidden = importsFirst && !start.isError && !finish.isError;
  useEffect(() => {
    if (known) begin();
  }, [known]);
  if (!organizations) return <Loading />;
  if (organizations.length === 0) return <NoOrganization />;
  return (
    <Page
      title={source.title}
      width="narrow"
      description={source.description}
      actions={
        uploads ? (
          <LinkButton to={paths.starterTemplates()}>Starter templates</LinkButton>
        ) : (
          <Avatar name={source.values.display_name || source.title} src={source.icon} size={40} square />
        )
      }
    >
      <Form
        onSubmit={submit}
        error={start.error ?? finish.error}
        fields={TEMPLATE_FIELDS}
        actions={
          <>
            {!hidden && (
              <Button
                type="submit"
                look="primary"
                pending={start.isPending || finish.isPending || importing?.ended === false}
              >
                {importing ? 'Try again' : 'Create template'}
              </Button>
            )}
            <LinkButton to={paths.templates()}>Cancel</LinkButton>
          </>
        }
      >
        {!hidden && (
          <>
            {uploads && (
              <Section title="Source">
                <UploadField
                  archive={archive}
                  error={tried && !archive ? 'Choose a file or a folder.' : undefined}
                  onChange={(next) => {
                    setArchive(next);
                    if (next && values.name === '') setValues({ ...values, name: templateName(next.name) });
                  }}
                />
              </Section>
            )}
            <Section title="Template">
              {organizations.length > 1 && (
                <Field label="Organization" error={fieldError(start.error, 'organization')}>
                  <NativeSelect value={organization?.id} onChange={(event) => setOrganizationId(event.target.value)}>
                    {organizations.map(({ id, name, display_name }) => (
                      <option key={id} value={id}>
                        {display_name || name}
                      </option>
                    ))}
                  </NativeSelect>
                </Field>
              )}
              <TemplateFields values={values} onChange={setValues} error={finish.error ?? start.error} />
              {tried && values.name === '' && <p className="text-bad text-sm">Enter a name for the template.</p>}
            </Section>
            {variables.length > 0 && (
              <Section title="Variables" description="Terraform variables have one value for all workspaces.">
                <VariableFields
                  variables={variables}
                  values={variableValues}
                  onChange={setVariableValues}
                  showMissing={tried}
                />
              </Section>
            )}
            {organization && (
              <Section title="Provisioning">
                <ProvisionerTags organization={organization} rows={tags} onChange={setTags} />
              </Section>
            )}
          </>
        )}
        {hidden && !importing && <SkeletonLines lines={9} />}
        {importing && organization && (
          <div ref={panel}>
            <ImportPanel
              key={importing.id}
              versionId={importing.id}
              organizationName={organization.name}
              onEnd={(version) => void ended(version)}
              onReplaced={({ id, job }) => {
                setTags(tagRows(job.tags));
                setImporting({ id, ended: false });
              }}
            />
          </div>
        )}
        {tried && missing && variables.length > 0 && (
          <Notice tone="warn" title="Fill in the fields that are marked as required." />
        )}
      </Form>
    </Page>
  );
}

/** The settings that a copy takes over. */
function settingsOf(template: Template) {
  const {
    default_ttl_ms,
    activity_bump_ms,
    allow_user_autostart,
    allow_user_autostop,
    allow_user_cancel_workspace_jobs,
    require_active_version,
    max_port_share_level,
  } = template;
  return {
    default_ttl_ms,
    activity_bump_ms,
    allow_user_autostart,
    allow_user_autostop,
    allow_user_cancel_workspace_jobs,
    require_active_version,
    max_port_share_level,
  };
}

function NoOrganization() {
  return (
    <EmptyState isPage icon={Lock} title="You may not create templates">
      Ask an administrator for the role of a template administrator.
    </EmptyState>
  );
}

const MAX_SHOWN_LINKS = 5;

function LeftOutLinks({ links }: { links: readonly string[] }) {
  const more = links.length - MAX_SHOWN_LINKS;
  const names = [...links.slice(0, MAX_SHOWN_LINKS), ...(more > 0 ? [`${more} more`] : [])];
  return (
    <p className="break-all text-sm text-warn">
      Links are left out: {new Intl.ListFormat('en').format(names)}. Replace them by copies of the files.
    </p>
  );
}

/** Takes an archive or a folder, chosen or dropped. */
function UploadField({
  archive,
  onChange,
  error,
}: {
  archive: Archive | undefined;
  onChange: (archive: Archive | undefined) => void;
  error: string | undefined;
}) {
  const id = useId();
  const [over, setOver] = useState(false);
  const [problem, setProblem] = useState('');
  const take = async (read: Promise<Archive>) => {
    setProblem('');
    try {
      onChange(await read);
    } catch (err) {
      onChange(undefined);
      setProblem((err as Error).message);
    }
  };
  const shown = problem || error;
  const look = cx(
    'cursor-pointer rounded-sm font-medium text-accent-text underline-offset-2 hover:underline',
    'has-focus-visible:outline-2 has-focus-visible:outline-focus has-focus-visible:outline-offset-2',
  );
  return (
    <div className="flex flex-col gap-1.5">
      <section
        aria-label="Drop an archive here"
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          const [file] = event.dataTransfer.files;
          if (file) void take(readArchive(file));
        }}
        className={cx(
          'flex flex-col items-center gap-2 rounded-lg border border-dashed px-4 py-8 text-center',
          over ? 'border-accent bg-accent-soft' : shown ? 'border-bad' : 'border-field',
        )}
      >
        {archive ? (
          <>
            <FileArchive size={22} aria-hidden="true" className="text-muted" />
            <div className="wrap-anywhere font-medium">{archive.name}</div>
            <div className="text-muted text-sm">{sizeOf(archive.data.length)}</div>
            {archive.links.length > 0 && <LeftOutLinks links={archive.links} />}
          </>
        ) : (
          <>
            <FolderOpen size={22} aria-hidden="true" className="text-muted" />
            <div>Drop a .tar, .tar.gz or .zip file here</div>
          </>
        )}
        <div className="flex flex-wrap justify-center gap-x-2 text-sm">
          <label className={look}>
            {archive ? 'Choose another file' : 'Choose a file'}
            <input
              type="file"
              accept=".tar,.zip,.gz,.tgz"
              className="sr-only"
              aria-describedby={`${id}-error`}
              onChange={({ target }) => {
                const [file] = target.files ?? [];
                if (file) void take(readArchive(file));
                target.value = '';
              }}
            />
          </label>
          <span className="text-muted">or</span>
          <label className={look}>
            choose a folder
            <input
              type="file"
              className="sr-only"
              aria-describedby={`${id}-error`}
              ref={(input) => input?.setAttribute('webkitdirectory', '')}
              onChange={({ target }) => {
                const files = [...(target.files ?? [])];
                if (files.length > 0) void take(packFolder(files));
                target.value = '';
              }}
            />
          </label>
        </div>
      </section>
      <div id={`${id}-error`} aria-live="polite" className="text-bad text-sm">
        {shown}
      </div>
    </div>
  );
}
