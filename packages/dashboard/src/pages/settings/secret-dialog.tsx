import type { UserSecret } from '@ropewalk/contract';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { useChange } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, Input, TextArea } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';

const FIELDS = ['name', 'value', 'description', 'env_name', 'file_path'];

/** Adds a secret, or changes one. The form never has the stored value. */
export function SecretDialog({
  secret,
  onClose,
  onSaved,
}: {
  secret: UserSecret | undefined;
  onClose: () => void;
  onSaved: () => Promise<unknown>;
}) {
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const [description, setDescription] = useState(secret?.description ?? '');
  const [env, setEnv] = useState(secret?.env_name ?? '');
  const [file, setFile] = useState(secret?.file_path ?? '');
  const save = useChange(
    () => {
      const body = { description, env_name: env, file_path: file };
      if (!secret)
        return call('POST /users/{user}/secrets', { params: { user: 'me' }, body: { ...body, name, value } });
      const params = { user: 'me', name: secret.name };
      return call('PATCH /users/{user}/secrets/{name}', { params, body: { ...body, ...(value ? { value } : {}) } });
    },
    {
      ownError: true,
      async onSuccess() {
        await onSaved();
        onClose();
      },
    },
  );
  const { error, isPending } = save;
  const isComplete = secret ? true : name !== '' && value !== '' && (env !== '' || file !== '');
  return (
    <Dialog open onClose={onClose} title={secret ? `Edit ${secret.name}` : 'Add a secret'}>
      <div className="pb-3">
        <Form
          inDialog
          onSubmit={() => save.mutate()}
          error={error}
          fields={FIELDS}
          actions={
            <>
              <Button onClick={onClose}>Cancel</Button>
              <Button type="submit" look="primary" pending={isPending} disabled={!isComplete}>
                {secret ? 'Save' : 'Add secret'}
              </Button>
            </>
          }
        >
          {!secret && (
            <Field label="Name" error={fieldError(error, 'name')}>
              <Input autoFocus maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
            </Field>
          )}
          <Field
            label={secret ? 'New value' : 'Value'}
            help={secret && 'Leave empty to keep the stored value.'}
            error={fieldError(error, 'value')}
          >
            <TextArea
              className="font-mono"
              rows={3}
              autoComplete="off"
              spellCheck={false}
              value={value}
              onChange={(event) => setValue(event.target.value)}
            />
          </Field>
          <Field
            label="Environment variable"
            help="For new processes, for example GITHUB_TOKEN."
            error={fieldError(error, 'env_name')}
          >
            <Input className="font-mono" value={env} onChange={(event) => setEnv(event.target.value)} />
          </Field>
          <Field
            label="File"
            help="Written with the value, for example ~/.netrc. A secret needs a variable, a file, or both."
            error={fieldError(error, 'file_path')}
          >
            <Input className="font-mono" value={file} onChange={(event) => setFile(event.target.value)} />
          </Field>
          <Field label="Description" error={fieldError(error, 'description')}>
            <Input maxLength={1_000} value={description} onChange={(event) => setDescription(event.target.value)} />
          </Field>
        </Form>
      </div>
    </Dialog>
  );
}
