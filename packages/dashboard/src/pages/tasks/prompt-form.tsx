import type { Template } from '@ropewalk/contract';
import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import { useQueries } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useMe } from '../../api/me.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { Field, NativeSelect, TextArea } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { paths } from '../../util/paths.ts';
import { useGo } from '../../util/route.ts';
import { missingAccounts } from '../workspaces/create/accounts.tsx';
import { suggestName } from '../workspaces/create/suggest-name.ts';
import { workspacesQuery } from '../workspaces/queries.ts';

/** Asks for a prompt and starts its task. A template that needs more leads to the form of a workspace. */
export function PromptForm({ templates }: { templates: readonly Template[] }) {
  const me = useMe();
  const go = useGo();
  const [prompt, setPrompt] = useState('');
  const [chosen, setChosen] = useState('');
  const template = templates.find(({ id }) => id === chosen) ?? templates[0]!;
  const [presetId, setPreset] = useState<string>();
  const version = { params: { templateversion: template.active_version_id } };
  const [definitions, presets, accounts, own] = useQueries({
    queries: [
      apiQuery('GET /templateversions/{templateversion}/rich-parameters', [], version),
      apiQuery('GET /templateversions/{templateversion}/presets', [], version),
      apiQuery('GET /templateversions/{templateversion}/external-auth', [{ kind: 'user', id: me.id }], version),
      workspacesQuery('owner:me', 0, 1_000),
    ],
  });
  const loaded = definitions.data && presets.data && accounts.data && own.data;
  const preset = presets.data?.find(({ ID, Default }) => (presetId === undefined ? Default : ID === presetId));
  const given = new Set([PROMPT_PARAMETER, ...(preset?.Parameters ?? []).map(({ Name }) => Name)]);
  const asksMore =
    (definitions.data ?? []).some(({ name, required }) => required && !given.has(name)) ||
    missingAccounts(accounts.data ?? []).length > 0;
  const run = useChange(
    () =>
      call('POST /organizations/{organization}/members/{user}/workspaces', {
        params: { organization: template.organization_id, user: 'me' },
        body: {
          name: suggestName(new Set(own.data!.workspaces.map(({ name }) => name))),
          template_version_id: template.active_version_id,
          ...(preset ? { template_version_preset_id: preset.ID } : {}),
          rich_parameter_values: [{ name: PROMPT_PARAMETER, value: prompt }],
        },
      }),
    { ownError: true, onSuccess: (workspace) => go(paths.task(workspace)) },
  );
  const submit = () => {
    if (asksMore) go(paths.createWorkspace(template, { [`param.${PROMPT_PARAMETER}`]: prompt }));
    else run.mutate();
  };
  return (
    <Form
      onSubmit={submit}
      error={run.error}
      actions={
        <Button type="submit" look="primary" pending={run.isPending} disabled={!prompt.trim() || !loaded}>
          {asksMore ? 'Continue' : 'Run task'}
        </Button>
      }
    >
      <Field label="What should be done?">
        <TextArea
          rows={4}
          value={prompt}
          placeholder="Describe the task for the coding agent of the template"
          onChange={(event) => setPrompt(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
      </Field>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Template">
          <NativeSelect value={template.id} onChange={(event) => setChosen(event.target.value)}>
            {templates.map((each) => (
              <option key={each.id} value={each.id}>
                {each.display_name || each.name}
              </option>
            ))}
          </NativeSelect>
        </Field>
        {(presets.data?.length ?? 0) > 0 && (
          <Field label="Preset">
            <NativeSelect value={preset?.ID ?? ''} onChange={(event) => setPreset(event.target.value)}>
              {presets.data?.map(({ ID, Name }) => (
                <option key={ID} value={ID}>
                  {Name}
                </option>
              ))}
              <option value="">None</option>
            </NativeSelect>
          </Field>
        )}
      </div>
    </Form>
  );
}
