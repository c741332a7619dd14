import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { useMe } from '../../api/me.ts';
import { useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Badge } from '../../ui/badge.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { SaveButtons } from '../../ui/save.tsx';
import { toast } from '../../ui/toast.tsx';
import { formatDate } from '../../util/time.ts';

export default function AccountPage() {
  const me = useMe();
  const [name, setName] = useState(me.name ?? '');
  const [username, setUsername] = useState(me.username);
  const save = useChange(
    () => call('PUT /users/{user}/profile', { params: { user: 'me' }, body: { name: name.trim(), username } }),
    {
      ownError: true,
      refetch: ['GET /users/{user}'],
      onSuccess: () => toast({ title: 'Your account was changed.' }),
    },
  );
  return (
    <SidebarPage title="Account" area="Settings" narrow>
      <Section title="Profile">
        <Form
          onSubmit={() => save.mutate()}
          error={save.error}
          fields={['name', 'username']}
          actions={
            <SaveButtons
              changed={name.trim() !== (me.name ?? '') || username !== me.username}
              problem={username ? undefined : 'Enter a username.'}
              pending={save.isPending}
              onDiscard={() => {
                setName(me.name ?? '');
                setUsername(me.username);
              }}
            />
          }
        >
          <Field label="Full name" error={fieldError(save.error, 'name')}>
            <Input autoComplete="name" value={name} onChange={(event) => setName(event.target.value)} />
          </Field>
          <Field
            label="Username"
            error={fieldError(save.error, 'username')}
            help="Part of the addresses of your workspaces. Links with the old name stop working."
          >
            <Input autoComplete="username" value={username} onChange={(event) => setUsername(event.target.value)} />
          </Field>
        </Form>
      </Section>
      <Section title="Details">
        <Facts
          facts={[
            ['Email', me.email],
            ['Sign-in', me.login_type === 'password' ? 'Password' : me.login_type],
            [
              'Roles',
              <span key="roles" className="flex flex-wrap gap-1">
                {me.roles.length === 0 && 'Member'}
                {me.roles.map((role) => (
                  <Badge key={role.name}>{role.display_name || role.name}</Badge>
                ))}
              </span>,
            ],
            ['Since', formatDate(me.created_at)],
          ]}
        />
      </Section>
    </SidebarPage>
  );
}
