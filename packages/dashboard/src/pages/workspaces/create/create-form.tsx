import type { Preset, Template, TemplateVersion } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Dices } from 'lucide-react';
import { type RefObject, useRef, useState } from 'react';
import { call } from '../../../api/client.ts';
import { errorText } from '../../../api/errors.ts';
import { useOrganizationPermissions } from '../../../api/permissions.ts';
import { useChange } from '../../../api/query.ts';
import { LiveProblems } from '../../../forms/parameters/live-problems.tsx';
import { ParameterForm } from '../../../forms/parameters/parameter-form.tsx';
import type { NameValue } from '../../../forms/parameters/state.ts';
import { rejectedParameters, showFirstProblem } from '../../../forms/parameters/use-parameters.ts';
import { useSubmitWhenReady } from '../../../forms/parameters/use-submit-when-ready.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Button, IconButton, LinkButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { Dialog } from '../../../ui/dialog.tsx';
import { Field, Input } from '../../../ui/field.tsx';
import { Markdown } from '../../../ui/markdown.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Section } from '../../../ui/page.tsx';
import { Select } from '../../../ui/select.tsx';
import { SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo, useSearchParams } from '../../../util/route.ts';
import { poolsQuery } from '../../templates/data.ts';
import { Budget } from '../budget.tsx';
import { ExternalAccounts } from './accounts.tsx';
import { MatchingDaemons } from './daemons.tsx';
import { OwnerField } from './owner-field.tsx';
import { type Draft, type DraftSource, useDraft } from './use-draft.ts';

export interface CreateFormProps extends DraftSource {
  /** The versions that can be used, newest first. */
  versions: readonly TemplateVersion[];
  onVersion: (id: string) => void;
  /** The version of the link, if the template does not have it. */
  missingVersion: string | undefined;
  /** The organizations with a template of this name. */
  organizations: readonly string[];
  onOrganization: (name: string) => void;
}

/** The form of a new workspace. In the mode `auto` it asks for consent and creates the workspace immediately. */
export function CreateForm(props: CreateFormProps) {
  const { template, version } = props;
  const draft = useDraft(props);
  const { missing, nameProblem, parameters } = draft;
  const create = useCreate(props, draft);
  const rejected = rejectedParameters(create.error);
  const nameField = useRef<HTMLInputElement>(null);
  const [tried, setTried] = useState(false);
  const [consent, setConsent] = useState(props.mode === 'auto');
  const { submit, waits } = useSubmitWhenReady(draft.live, () => {
    setTried(true);
    if (draft.ready) create.mutate();
    else if (nameProblem) nameField.current?.focus();
    else showFirstProblem(parameters.states);
  });
  return (
    <>
      {props.missingVersion && (
        <Notice tone="warn" title={`The template has no usable version ${props.missingVersion}`}>
          <p className="text-text">The form shows its active version.</p>
        </Notice>
      )}
      <form
        className="flex flex-col gap-5"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <Section>
          <TemplateName template={template} />
          <NameField
            draft={draft}
            input={nameField}
            error={tried || draft.name !== props.linkName ? (nameProblem ?? rejected.name) : rejected.name}
          />
          <PlaceFields form={props} draft={draft} />
        </Section>
        <ExternalAccounts accounts={props.accounts} />
        <Parameters source={props} draft={draft} rejected={rejected} tried={tried} />
        {version && <MatchingDaemons versionId={version.id} states={parameters.states} />}
        {missing.length > 0 && (
          <Notice
            tone="warn"
            title={`Connect ${missing.join(' and ')} first`}
            detail="The template needs the account. Connect it above, then come back to this page."
          />
        )}
        {create.error != null && <Notice tone="bad" {...errorText(create.error)} />}
        <div className="flex flex-wrap items-center gap-2">
          <Button type="submit" look="primary" pending={create.isPending || waits} disabled={missing.length > 0}>
            Create workspace
          </Button>
          <LinkButton to={paths.templates()}>Cancel</LinkButton>
          <Budget organization={template.organization_id} user={draft.owner} />
        </div>
      </form>
      {consent && (
        <ConsentDialog
          template={template}
          draft={draft}
          parameters={props.link}
          pending={create.isPending}
          onCreate={() => {
            setConsent(false);
            submit();
          }}
          onEdit={() => setConsent(false)}
        />
      )}
    </>
  );
}

/** Creates the workspace, and then opens its page. */
function useCreate({ template, version }: DraftSource, { name, owner, parameters }: Draft) {
  const go = useGo();
  return useChange(
    () =>
      call('POST /organizations/{organization}/members/{user}/workspaces', {
        params: { organization: template.organization_id, user: owner },
        body: {
          name,
          ...(version ? { template_version_id: version.id } : { template_id: template.id }),
          ...(parameters.preset ? { template_version_preset_id: parameters.preset.ID } : {}),
          rich_parameter_values: parameters.values,
        },
      }),
    { ownError: true, onSuccess: (workspace) => go(paths.workspace(workspace)) },
  );
}

function TemplateName({ template }: { template: Template }) {
  return (
    <div className="flex items-start gap-3">
      <Avatar name={template.name} src={template.icon} size={32} square />
      <div className="min-w-0">
        <div className="font-medium">{template.display_name || template.name}</div>
        {template.description && (
          <div className="text-muted">
            <Markdown text={template.description} inline />
          </div>
        )}
      </div>
    </div>
  );
}

function NameField({
  draft,
  input,
  error,
}: {
  draft: Draft;
  input: RefObject<HTMLInputElement | null>;
  error: string | undefined;
}) {
  return (
    <Field label="Workspace name" error={error}>
      <div className="flex gap-2">
        <Input ref={input} value={draft.name} required onChange={(event) => draft.setName(event.target.value.trim())} />
        <IconButton icon={Dices} label="Suggest another name" look="default" onClick={draft.suggestName} />
      </div>
    </Field>
  );
}

/** The organization, the owner and the version, for a person who has a choice. */
function PlaceFields({ form, draft }: { form: CreateFormProps; draft: Draft }) {
  const { template, version, versions, organizations } = form;
  const { name, owner } = draft;
  const [, setSearch] = useSearchParams();
  const may = useOrganizationPermissions(template.organization_id);
  return (
    <>
      {organizations.length > 1 && (
        <Field label="Organization">
          <Select
            value={template.organization_name}
            onChange={form.onOrganization}
            options={organizations.map((each) => ({ value: each, label: each }))}
          />
        </Field>
      )}
      {may.createWorkspace && <OwnerField value={owner} onChange={draft.setOwner} />}
      {version && versions.length > 1 && (!template.require_active_version || may.updateTemplates) && (
        <Field label="Version">
          <Select
            value={version.id}
            onChange={(id) => {
              // the name and the owner survive the change
              setSearch({ name, owner });
              form.onVersion(id);
            }}
            options={versions.map((each) => ({
              value: each.id,
              label: each.id === template.active_version_id ? `${each.name} (active)` : each.name,
              help: each.message.split('\n')[0] || undefined,
            }))}
          />
        </Field>
      )}
    </>
  );
}

function Parameters({
  source: { template, definitions, presets },
  draft: { live, parameters },
  rejected,
  tried,
}: {
  source: DraftSource;
  draft: Draft;
  /** The server's complaints by parameter name. */
  rejected: Record<string, string>;
  /** Whether the person has submitted the form, so that problems are shown. */
  tried: boolean;
}) {
  const pools = useQuery({ ...poolsQuery(template.id), enabled: presets.length > 0 }).data?.pools ?? [];
  const prebuilt = new Set(pools.filter((pool) => pool.ready > 0).map((pool) => pool.preset_id));
  // the import evaluates a template for its author, who may see fewer parameters
  const hasMore = parameters.states.length > 0 || (live?.problems.length ?? 0) > 0;
  if (definitions.length === 0 && presets.length === 0 && !hasMore) return null;
  return (
    <Section title="Parameters">
      <LiveProblems live={live} />
      {presets.length > 0 && (
        <Presets
          presets={presets}
          ready={prebuilt}
          value={parameters.preset?.ID ?? ''}
          onChange={(id) => parameters.setPreset(presets.find(({ ID }) => ID === id))}
        />
      )}
      {live?.ready === false ? (
        <SkeletonLines lines={definitions.length * 2} />
      ) : (
        <ParameterForm
          parameters={parameters.states}
          onChange={parameters.change}
          rejected={rejected}
          showProblems={tried}
        />
      )}
    </Section>
  );
}

/** Sets of values that the template's author made. */
function Presets({
  presets,
  ready,
  value,
  onChange,
}: {
  presets: readonly Preset[];
  /** The ids of those with a prebuilt workspace that nobody has claimed. */
  ready: ReadonlySet<string>;
  value: string;
  onChange: (id: string) => void;
}) {
  const options = [
    ...presets.map((preset) => ({
      id: preset.ID,
      name: preset.Name,
      icon: preset.Icon,
      help: preset.Description,
      ready: ready.has(preset.ID),
    })),
    { id: '', name: 'Custom', icon: '', help: 'Choose each value yourself', ready: false },
  ];
  return (
    <fieldset>
      <legend className="mb-1.5 font-medium text-sm">Preset</legend>
      <div className="grid gap-2 sm:grid-cols-2">
        {options.map((option) => (
          <label
            key={option.id}
            className={cx(
              'flex items-start gap-2.5 rounded-md border px-3 py-2 has-focus-visible:outline-2 has-focus-visible:outline-focus',
              option.id === value ? 'border-accent bg-accent-soft' : 'border-field hover:bg-hover',
            )}
          >
            <input
              type="radio"
              name="preset"
              // the box has the outline
              className="radio mt-0.5 outline-none"
              checked={option.id === value}
              onChange={() => onChange(option.id)}
            />
            <span className="min-w-0">
              <span className="flex items-center gap-1.5 font-medium">
                {option.icon && <Avatar name={option.name} src={option.icon} size={16} square />}
                {option.name}
              </span>
              {option.help && <span className="block text-muted text-sm">{option.help}</span>}
              {option.ready && <span className="block text-good text-sm">Ready within seconds</span>}
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** A link must not create a workspace without the person's consent. */
function ConsentDialog({
  template,
  draft: { name, owner, ready },
  parameters,
  pending,
  onCreate,
  onEdit,
}: {
  template: Template;
  draft: Draft;
  /** Those of the link. */
  parameters: readonly NameValue[];
  pending: boolean;
  onCreate: () => void;
  onEdit: () => void;
}) {
  return (
    <Dialog
      open
      onClose={onEdit}
      title="Create this workspace?"
      description="You opened a link that creates a workspace. Continue only if you trust where it came from."
      footer={
        <>
          <Button onClick={onEdit}>Look at the form</Button>
          <Button look="primary" pending={pending} onClick={onCreate}>
            Create workspace
          </Button>
        </>
      }
    >
      <dl className="grid grid-cols-[minmax(5rem,max-content)_minmax(0,1fr)] gap-x-4 gap-y-1.5">
        <dt className="text-muted">Name</dt>
        <dd className="wrap-anywhere">
          {owner}/{name}
        </dd>
        <dt className="text-muted">Template</dt>
        <dd>{template.display_name || template.name}</dd>
        {parameters.map((parameter) => (
          <div key={parameter.name} className="contents">
            <dt className="wrap-anywhere text-muted">{parameter.name}</dt>
            <dd className="whitespace-pre-wrap break-all font-mono text-sm">{parameter.value || '(empty)'}</dd>
          </div>
        ))}
      </dl>
      {!ready && <p className="mt-3 text-warn">Some values are missing or not valid. The form shows which.</p>}
    </Dialog>
  );
}
