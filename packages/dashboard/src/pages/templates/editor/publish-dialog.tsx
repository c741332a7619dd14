import type { Template, TemplateVersion } from '@ropewalk/contract';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { errorText, fieldError, isBeyondFields } from '../../../api/errors.ts';
import { useChange } from '../../../api/query.ts';
import { Button } from '../../../ui/button.tsx';
import { Checkbox } from '../../../ui/checkbox.tsx';
import { Dialog } from '../../../ui/dialog.tsx';
import { Field, Input, TextArea } from '../../../ui/field.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { toast } from '../../../ui/toast.tsx';

/** Names a version, describes it, and makes it the active one. */
export function PublishDialog({
  template,
  version,
  onPublished,
  onClose,
}: {
  template: Template;
  version: TemplateVersion;
  onPublished: (version: TemplateVersion) => void;
  onClose: () => void;
}) {
  const [name, setName] = useState(version.name);
  const [message, setMessage] = useState(version.message);
  const [active, setActive] = useState(true);
  const publish = useChange(
    async () => {
      const saved = await call('PATCH /templateversions/{templateversion}', {
        params: { templateversion: version.id },
        body: { name, message },
      });
      if (active) {
        await call('PATCH /templates/{template}/versions', {
          params: { template: template.id },
          body: { id: version.id },
        });
      }
      return saved;
    },
    {
      ownError: true,
      refetch: [
        'GET /organizations/{organization}/templates/{templatename}',
        'GET /templates/{template}/versions',
        'GET /templateversions/{templateversion}',
      ],
      onSuccess(saved) {
        toast({ title: active ? `Published ${saved.name}. New workspaces get it.` : `Saved ${saved.name}.` });
        onPublished(saved);
        onClose();
      },
    },
  );
  return (
    <Dialog
      open
      onClose={onClose}
      title="Publish this version"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" pending={publish.isPending} disabled={name === ''} onClick={() => publish.mutate()}>
            Publish
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <Field label="Name" error={fieldError(publish.error, 'name')}>
          <Input value={name} onChange={(event) => setName(event.target.value)} />
        </Field>
        <Field label="Message" help="What changed, for people who update their workspaces.">
          <TextArea rows={3} value={message} onChange={(event) => setMessage(event.target.value)} />
        </Field>
        <Checkbox
          checked={active}
          onChange={setActive}
          label="Make it the active version"
          help="New workspaces get it, and existing ones show an update."
        />
        {isBeyondFields(publish.error, ['name']) && <Notice tone="bad" {...errorText(publish.error)} />}
      </div>
    </Dialog>
  );
}
