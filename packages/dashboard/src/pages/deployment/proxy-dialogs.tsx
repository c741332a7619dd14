import type { WorkspaceProxy } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { buildInfoQuery } from '../../api/me.ts';
import { queryClient, useChange } from '../../api/query.ts';
import { IconField } from '../../forms/icon-field.tsx';
import { isPrimary, regionName } from '../../regions/choice.ts';
import { Button } from '../../ui/button.tsx';
import { CodeBlock, CodeLine } from '../../ui/copy.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { Link } from '../../ui/link.tsx';
import { Notice } from '../../ui/notice.tsx';
import { toast } from '../../ui/toast.tsx';
import { paths } from '../../util/paths.ts';
import { shellWord } from '../../util/shell.ts';

/** What the person chose. */
export type AskedProxy = { what: 'create' } | { what: 'edit' | 'replace' | 'delete'; proxy: WorkspaceProxy };

interface MadeToken {
  proxy: WorkspaceProxy;
  token: string;
  isNew: boolean;
}

interface ProxyFields {
  name: string;
  display_name: string;
  icon: string;
}

const FIELDS = ['name', 'display_name', 'icon'];

const refetch = () =>
  Promise.all(
    ['GET /workspaceproxies', 'GET /regions'].map((key) => queryClient.invalidateQueries({ queryKey: [key] })),
  );

/**
 * The dialogs of the list of proxies, of which at most one is open. Those that ask for a confirmation stay mounted while
 * they are closed, so that they give the focus back.
 */
export function ProxyDialogs({ asked, onClose }: { asked: AskedProxy | undefined; onClose: () => void }) {
  const [made, setMade] = useState<MadeToken>();
  const proxy = asked && 'proxy' in asked ? asked.proxy : undefined;
  const params = { workspaceproxy: proxy?.id ?? '' };
  return (
    <>
      {asked?.what === 'create' && <CreateDialog onMade={setMade} onClose={onClose} />}
      {asked?.what === 'edit' && <EditDialog proxy={asked.proxy} onClose={onClose} />}
      {made && <TokenDialog {...made} onClose={() => setMade(undefined)} />}
      <ConfirmDialog
        open={asked?.what === 'replace'}
        onClose={onClose}
        title={`Replace the token of ${proxy ? regionName(proxy) : ''}?`}
        action="Replace token"
        danger
        onConfirm={async () => {
          const body = { regenerate_token: true };
          const answer = await call('PATCH /workspaceproxies/{workspaceproxy}', { params, body });
          await refetch();
          setMade({ proxy: answer.proxy, token: answer.proxy_token, isNew: false });
        }}
      >
        The old token ends immediately. Its processes serve nobody until you start them with the new one.
      </ConfirmDialog>
      <ConfirmDialog
        open={asked?.what === 'delete'}
        onClose={onClose}
        title={`Delete ${proxy ? regionName(proxy) : ''}?`}
        action="Delete proxy"
        danger
        typeToConfirm={proxy?.name ?? ''}
        onConfirm={async () => {
          await call('DELETE /workspaceproxies/{workspaceproxy}', { params });
          toast({ title: `${regionName(proxy!)} was deleted.` });
          await refetch();
        }}
      >
        Its token ends immediately, and its links stop working. People who chose this region continue with the fastest
        other one.
      </ConfirmDialog>
    </>
  );
}

function CreateDialog({ onMade, onClose }: { onMade: (made: MadeToken) => void; onClose: () => void }) {
  const [fields, setFields] = useState<ProxyFields>({ name: '', display_name: '', icon: '' });
  const create = useChange(() => call('POST /workspaceproxies', { body: fields }), {
    ownError: true,
    async onSuccess({ proxy, proxy_token: token }) {
      await refetch();
      onMade({ proxy, token, isNew: true });
      onClose();
    },
  });
  return (
    <Dialog open onClose={onClose} title="Create a workspace proxy">
      <div className="pb-3">
        <Form
          inDialog
          onSubmit={() => create.mutate()}
          error={create.error}
          fields={FIELDS}
          actions={
            <>
              <Button onClick={onClose}>Cancel</Button>
              <Button type="submit" look="primary" pending={create.isPending} disabled={!fields.name}>
                Create proxy
              </Button>
            </>
          }
        >
          <Fields fields={fields} onChange={setFields} error={create.error} />
        </Form>
      </div>
    </Dialog>
  );
}

function EditDialog({ proxy, onClose }: { proxy: WorkspaceProxy; onClose: () => void }) {
  const saved: ProxyFields = { name: proxy.name, display_name: proxy.display_name, icon: proxy.icon_url };
  const [fields, setFields] = useState(saved);
  const isChanged = FIELDS.some((name) => fields[name as keyof ProxyFields] !== saved[name as keyof ProxyFields]);
  const save = useChange(
    async () => {
      const params = { workspaceproxy: proxy.id };
      await call('PATCH /workspaceproxies/{workspaceproxy}', { params, body: fields });
      await refetch();
    },
    { ownError: true, onSuccess: onClose },
  );
  return (
    <Dialog open onClose={onClose} title={`Edit ${regionName(proxy)}`}>
      <div className="pb-3">
        <Form
          inDialog
          onSubmit={() => save.mutate()}
          error={save.error}
          fields={FIELDS}
          actions={
            <>
              <Button onClick={onClose}>Cancel</Button>
              <Button type="submit" look="primary" pending={save.isPending} disabled={!isChanged || !fields.name}>
                Save
              </Button>
            </>
          }
        >
          <Fields fields={fields} onChange={setFields} error={save.error} hasFixedName={isPrimary(proxy)} />
        </Form>
      </div>
    </Dialog>
  );
}

function Fields({
  fields,
  onChange,
  error,
  hasFixedName = false,
}: {
  fields: ProxyFields;
  onChange: (fields: ProxyFields) => void;
  error: unknown;
  /** Whether it is the primary region, which keeps its name. */
  hasFixedName?: boolean;
}) {
  const { name, display_name: displayName, icon } = fields;
  const set = (change: Partial<ProxyFields>) => onChange({ ...fields, ...change });
  return (
    <>
      {!hasFixedName && (
        <Field label="Name" help="Commands use it, for example eu-west." error={fieldError(error, 'name')}>
          <Input autoFocus maxLength={64} value={name} onChange={(event) => set({ name: event.target.value })} />
        </Field>
      )}
      <Field
        label="Display name"
        help="People choose their region by it, for example Frankfurt."
        error={fieldError(error, 'display_name')}
      >
        <Input
          autoFocus={hasFixedName}
          value={displayName}
          onChange={(event) => set({ display_name: event.target.value })}
        />
      </Field>
      <IconField
        name={displayName || name}
        value={icon}
        onChange={(next) => set({ icon: next })}
        error={fieldError(error, 'icon')}
      />
    </>
  );
}

/** The token and the commands that use it. The server never shows it again. */
function TokenDialog({ proxy, token, isNew, onClose }: MadeToken & { onClose: () => void }) {
  const server = useQuery(buildInfoQuery).data?.dashboard_url || location.origin;
  const url = proxy.path_app_url || `https://${proxy.name}.example.com`;
  const wildcard = proxy.path_app_url ? proxy.wildcard_hostname : `*.${proxy.name}.example.com`;
  const commands = [
    `export CODER_PRIMARY_ACCESS_URL=${shellWord(server)}`,
    `export CODER_PROXY_SESSION_TOKEN=${shellWord(token)}`,
    `export CODER_ACCESS_URL=${shellWord(url)}`,
    ...(wildcard ? [`export CODER_WILDCARD_ACCESS_URL=${shellWord(wildcard)}`] : []),
    'coder wsproxy server',
  ].join('\n');
  return (
    <Dialog
      open
      onClose={onClose}
      title={isNew ? `${regionName(proxy)} was created` : `${regionName(proxy)} has a new token`}
      footer={
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      }
      wide
    >
      <div className="flex flex-col gap-4">
        <Notice tone="warn" title="Copy the token now. It is not shown again." />
        <CodeLine code={token} label="Copy the token" wrap />
        <div className="flex flex-col gap-1.5">
          <span className="font-medium text-sm">Start the proxy with it</span>
          <CodeBlock code={commands} label="Copy the commands" />
          <span className="text-muted text-sm">
            {proxy.path_app_url === '' && 'Replace the example addresses with those of the proxy. '}
            The machine needs the coder program. <Link to={paths.install()}>Install it</Link>
          </span>
        </div>
      </div>
    </Dialog>
  );
}
