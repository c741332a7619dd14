import type { Template } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { fieldError } from '../../../api/errors.ts';
import { templatePermissions } from '../../../api/permissions.ts';
import { Button } from '../../../ui/button.tsx';
import { Checkbox } from '../../../ui/checkbox.tsx';
import { Field, NativeSelect, TextArea } from '../../../ui/field.tsx';
import { Form } from '../../../ui/form.tsx';
import { Section } from '../../../ui/page.tsx';
import { SaveButtons } from '../../../ui/save.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';
import { useTemplate } from '../data.ts';
import { TEMPLATE_FIELDS, TemplateFields } from '../fields.tsx';
import { DeleteTemplate } from '../template/layout.tsx';
import { SettingsPage } from './settings-page.tsx';
import { useSave } from './use-save.ts';

export default function GeneralSettings() {
  const template = useTemplate();
  const mayDelete = useQuery(templatePermissions(template.id)).data?.delete ?? false;
  return (
    <SettingsPage template={template} title="General">
      <About key={template.id} template={template} />
      <Workspaces template={template} />
      <Deprecation template={template} />
      {mayDelete && <Delete template={template} />}
    </SettingsPage>
  );
}

function About({ template }: { template: Template }) {
  const saved = {
    name: template.name,
    display_name: template.display_name,
    description: template.description,
    icon: template.icon,
  };
  const [values, setValues] = useState(saved);
  const save = useSave(template);
  return (
    <Section title="General">
      <Form
        onSubmit={() => save.mutate(values)}
        error={save.error}
        fields={TEMPLATE_FIELDS}
        actions={
          <SaveButtons
            changed={TEMPLATE_FIELDS.some((field) => values[field] !== saved[field])}
            problem={values.name === '' ? 'Enter a name.' : undefined}
            pending={save.isPending}
            onDiscard={() => setValues(saved)}
          />
        }
      >
        <TemplateFields values={values} onChange={setValues} error={save.error} />
      </Form>
    </Section>
  );
}

const CORS = [
  { value: 'simple', name: "Pages of the same owner's apps" },
  { value: 'passthru', name: 'Pages that the app itself permits' },
] as const;

const SHARE_LEVELS = [
  { value: 'owner', name: 'Nobody else' },
  { value: 'organization', name: 'Members of the organization' },
  { value: 'authenticated', name: 'Everyone who is signed in' },
  { value: 'public', name: 'Anyone with the link' },
] as const;

function Workspaces({ template }: { template: Template }) {
  const [cancel, setCancel] = useState(template.allow_user_cancel_workspace_jobs);
  const [active, setActive] = useState(template.require_active_version);
  const [share, setShare] = useState(template.max_port_share_level);
  const [classic, setClassic] = useState(template.use_classic_parameter_flow);
  const [cors, setCors] = useState(template.cors_behavior);
  const [fetches, setFetches] = useState(template.disable_module_cache);
  const save = useSave(template);
  const changed =
    cancel !== template.allow_user_cancel_workspace_jobs ||
    active !== template.require_active_version ||
    share !== template.max_port_share_level ||
    classic !== template.use_classic_parameter_flow ||
    cors !== template.cors_behavior ||
    fetches !== template.disable_module_cache;
  return (
    <Section title="Workspaces">
      <Form
        onSubmit={() =>
          save.mutate({
            allow_user_cancel_workspace_jobs: cancel,
            require_active_version: active,
            max_port_share_level: share,
            use_classic_parameter_flow: classic,
            cors_behavior: cors,
            disable_module_cache: fetches,
          })
        }
        error={save.error}
        actions={
          <SaveButtons
            changed={changed}
            pending={save.isPending}
            onDiscard={() => {
              setCancel(template.allow_user_cancel_workspace_jobs);
              setActive(template.require_active_version);
              setShare(template.max_port_share_level);
              setClassic(template.use_classic_parameter_flow);
              setCors(template.cors_behavior);
              setFetches(template.disable_module_cache);
            }}
          />
        }
      >
        <Checkbox
          checked={active}
          onChange={setActive}
          label="Require the active version"
          help="Workspaces get the active version with their next start. Template administrators may still choose another one."
        />
        <Checkbox
          checked={cancel}
          onChange={setCancel}
          label="People may cancel their builds"
          help="A canceled build can leave resources behind that nobody deletes."
        />
        <Checkbox
          checked={!classic}
          onChange={(checked) => setClassic(!checked)}
          label="Dynamic parameters"
          help="Options and rules of parameters change as people enter values. Otherwise they are as the import of the version found them."
        />
        <Checkbox
          checked={fetches}
          onChange={setFetches}
          label="Fetch modules for every build"
          help="Builds download the template's modules again. Otherwise they use those of the import, and need no registry."
        />
        <Field label="Apps and ports can be shared with at most">
          <NativeSelect value={share} onChange={(event) => setShare(event.target.value as typeof share)}>
            {SHARE_LEVELS.map(({ value, name }) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </NativeSelect>
        </Field>
        <Field
          label="Who can read answers of apps across origins"
          help="This concerns apps with their own addresses. By default the server answers CORS requests for them."
        >
          <NativeSelect value={cors} onChange={(event) => setCors(event.target.value as typeof cors)}>
            {CORS.map(({ value, name }) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </NativeSelect>
        </Field>
      </Form>
    </Section>
  );
}

function Deprecation({ template }: { template: Template }) {
  const saved = template.deprecation_message ?? '';
  const [message, setMessage] = useState(saved);
  const save = useSave(template);
  return (
    <Section title="Deprecation">
      <Form
        onSubmit={() => save.mutate({ deprecation_message: message })}
        error={save.error}
        fields={['deprecation_message']}
        actions={
          <>
            <SaveButtons
              name={template.deprecated ? 'Save' : 'Deprecate'}
              changed={message !== saved}
              problem={message.trim() === '' ? 'Enter a message, or end the deprecation.' : undefined}
              pending={save.isPending && save.variables.deprecation_message !== ''}
              onDiscard={() => setMessage(saved)}
            />
            {template.deprecated && (
              <Button
                disabled={save.isPending}
                onClick={() => save.mutate({ deprecation_message: '' }, { onSuccess: () => setMessage('') })}
              >
                End the deprecation
              </Button>
            )}
          </>
        }
      >
        <Field
          label="Message"
          help="While there is a message, nobody can create workspaces from this template. Existing ones keep working."
          error={fieldError(save.error, 'deprecation_message')}
        >
          <TextArea
            rows={2}
            placeholder="Use the template … instead."
            value={message}
            onChange={(event) => setMessage(event.target.value)}
          />
        </Field>
      </Form>
    </Section>
  );
}

function Delete({ template }: { template: Template }) {
  const [open, setOpen] = useState(false);
  const go = useGo();
  return (
    <Section
      danger
      title="Delete this template"
      description="Delete its workspaces first. This cannot be undone."
      actions={
        <Button look="danger" onClick={() => setOpen(true)}>
          Delete…
        </Button>
      }
    >
      <DeleteTemplate
        template={template}
        open={open}
        onClose={() => setOpen(false)}
        onDeleted={() => go(paths.templates())}
      />
    </Section>
  );
}
