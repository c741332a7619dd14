import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, LinkButton } from '../../ui/button.tsx';
import { CodeLine } from '../../ui/copy.tsx';
import { Field, Input, NativeSelect } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Section } from '../../ui/page.tsx';
import { QueryView } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { formatDate, serverNow } from '../../util/time.ts';
import { lifetimeChoices, nanoseconds } from './lifetimes.ts';
import { isIncomplete, LimitFields, type Limits, requestOf } from './token-limits.tsx';

const configQuery = apiQuery('GET /users/{user}/keys/tokens/tokenconfig', [], { params: { user: 'me' } });

export default function NewTokenPage() {
  const config = useQuery(configQuery);
  return (
    <SidebarPage title="Create a token" area="Settings" narrow>
      <QueryView query={config}>{(data) => <TokenForm longestNs={data.max_token_lifetime} />}</QueryView>
    </SidebarPage>
  );
}

function NewToken({ token }: { token: string }) {
  return (
    <Section title="Your new token">
      <CodeLine code={token} label="Copy the token" wrap />
      <Notice
        tone="warn"
        title="Copy the token now. It is not shown again."
        detail="Set CODER_SESSION_TOKEN to it, or send it in the header Coder-Session-Token."
      />
      <div>
        <LinkButton to={paths.settings('tokens')} look="primary">
          Done
        </LinkButton>
      </div>
    </Section>
  );
}

function TokenForm({ longestNs }: { longestNs: number }) {
  const choices = lifetimeChoices(longestNs);
  const [name, setName] = useState('');
  const [days, setDays] = useState(choices.includes(30) ? 30 : choices.at(-1));
  const [limits, setLimits] = useState<Limits>({ access: 'all', scopes: [], objects: undefined });
  const create = useChange(
    () =>
      call('POST /users/{user}/keys/tokens', {
        params: { user: 'me' },
        body: {
          ...(name.trim() ? { token_name: name.trim() } : {}),
          ...requestOf(limits),
          lifetime: days === undefined ? longestNs : nanoseconds(days),
        },
      }),
    { ownError: true, refetch: ['GET /users/{user}/keys/tokens'] },
  );
  if (create.data) return <NewToken token={create.data.key} />;
  return (
    <Section>
      <Form
        onSubmit={() => create.mutate()}
        error={create.error}
        fields={['token_name', 'name', 'lifetime']}
        actions={
          <>
            <Button type="submit" look="primary" pending={create.isPending} disabled={isIncomplete(limits)}>
              Create token
            </Button>
            <LinkButton to={paths.settings('tokens')}>Cancel</LinkButton>
          </>
        }
      >
        <Field
          label="Name"
          help="Says what the token is for. Empty: a name is chosen."
          error={fieldError(create.error, 'token_name', 'name')}
        >
          <Input autoFocus maxLength={64} value={name} onChange={(event) => setName(event.target.value)} />
        </Field>
        <Field
          label="Lifetime"
          error={fieldError(create.error, 'lifetime')}
          help={days === undefined ? undefined : `Expires ${formatDate(serverNow() + days * 86_400_000)}.`}
        >
          {choices.length > 0 ? (
            <NativeSelect value={days} onChange={(event) => setDays(Number(event.target.value))}>
              {choices.map((each) => (
                <option key={each} value={each}>
                  {each === 1 ? '1 day' : `${each} days`}
                </option>
              ))}
            </NativeSelect>
          ) : (
            <Input disabled value="The longest that this server permits" />
          )}
        </Field>
        <LimitFields limits={limits} onChange={setLimits} />
      </Form>
    </Section>
  );
}
