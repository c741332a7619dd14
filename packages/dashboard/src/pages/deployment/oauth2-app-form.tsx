import type { OAuth2ProviderApp } from '@ropewalk/contract';
import { type ReactNode, useState } from 'react';
import { fieldError } from '../../api/errors.ts';
import { useChange } from '../../api/query.ts';
import { IconField } from '../../forms/icon-field.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';

export type AppFields = Pick<OAuth2ProviderApp, 'name' | 'callback_url' | 'icon'>;

const FIELDS = ['name', 'callback_url', 'icon'];

/** The fields of an app, which `actions` saves. */
export function AppForm({
  saved,
  inDialog = false,
  onSave,
  actions,
}: {
  saved: AppFields;
  inDialog?: boolean;
  onSave: (fields: AppFields) => Promise<unknown>;
  actions: (state: { changed: boolean; complete: boolean; pending: boolean; discard: () => void }) => ReactNode;
}) {
  const [fields, setFields] = useState(saved);
  const save = useChange(() => onSave(fields), { ownError: true });
  const set = (change: Partial<AppFields>) => setFields({ ...fields, ...change });
  const { name, callback_url: callbackUrl, icon } = fields;
  const { error, isPending: pending } = save;
  return (
    <Form
      inDialog={inDialog}
      onSubmit={() => save.mutate()}
      error={error}
      fields={FIELDS}
      actions={actions({
        changed: name !== saved.name || callbackUrl !== saved.callback_url || icon !== saved.icon,
        complete: name !== '' && callbackUrl !== '',
        pending,
        discard: () => setFields(saved),
      })}
    >
      <Field label="Name" help="People see it when they let the app in." error={fieldError(error, 'name')}>
        <Input
          autoFocus={inDialog}
          maxLength={64}
          value={name}
          onChange={(event) => set({ name: event.target.value })}
        />
      </Field>
      <Field
        label="Callback URL"
        help="Where the browser returns, for example https://portal.example.com/callback. The app must send exactly this address."
        error={fieldError(error, 'callback_url')}
      >
        <Input
          className="font-mono"
          value={callbackUrl}
          onChange={(event) => set({ callback_url: event.target.value })}
        />
      </Field>
      <IconField name={name} value={icon} onChange={(next) => set({ icon: next })} error={fieldError(error, 'icon')} />
    </Form>
  );
}
