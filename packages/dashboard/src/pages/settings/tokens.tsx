import type { APIKeyWithOwner } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { KeyRound, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { queryClient } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Badge } from '../../ui/badge.tsx';
import { IconButton, LinkButton } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { actionsColumn, Table } from '../../ui/table.tsx';
import { paths } from '../../util/paths.ts';
import { formatDate, formatRelative, isZeroTime, serverNow } from '../../util/time.ts';
import { summaryOf } from './token-choices.ts';
import { tokensQuery } from './tokens-query.ts';

const CREATE = (
  <LinkButton to={paths.newToken()} look="primary" icon={Plus}>
    Create token
  </LinkButton>
);

export default function TokensPage() {
  const tokens = useQuery(tokensQuery);
  const [deleted, setDeleted] = useState<APIKeyWithOwner>();
  return (
    <SidebarPage
      title="Tokens"
      area="Settings"
      description="A token lets a program use the API as you."
      actions={tokens.data?.length !== 0 && CREATE}
    >
      <Section flush>
        <QueryView query={tokens} loading={<TokenTable rows={undefined} onDelete={setDeleted} />}>
          {(rows) => <TokenTable rows={rows} onDelete={setDeleted} />}
        </QueryView>
      </Section>
      <ConfirmDialog
        open={deleted !== undefined}
        onClose={() => setDeleted(undefined)}
        title={`Delete the token ${deleted?.token_name ?? ''}?`}
        action="Delete token"
        danger
        onConfirm={async () => {
          await call('DELETE /users/{user}/keys/{keyid}', { params: { user: 'me', keyid: deleted!.id } });
          await queryClient.invalidateQueries({ queryKey: tokensQuery.queryKey });
        }}
      >
        Programs that use it are signed out immediately.
      </ConfirmDialog>
    </SidebarPage>
  );
}

function TokenTable({
  rows,
  onDelete,
}: {
  rows: readonly APIKeyWithOwner[] | undefined;
  onDelete: (token: APIKeyWithOwner) => void;
}) {
  return (
    <Table
      label="Tokens"
      rows={rows}
      rowKey={(token) => token.id}
      empty={
        <EmptyState icon={KeyRound} title="No tokens" action={CREATE}>
          Create one for a script or for continuous integration.
        </EmptyState>
      }
      columns={[
        { name: 'Name', cell: (token) => <span className="truncate font-medium">{token.token_name}</span> },
        {
          name: 'Access',
          width: '11rem',
          wideOnly: true,
          cell: (token) => (
            <span className="truncate text-muted" title={[...token.scopes, ...token.allow_list].join(', ')}>
              {summaryOf(token)}
            </span>
          ),
        },
        {
          name: 'Last used',
          width: '9rem',
          wideOnly: true,
          cell: (token) => (
            <span className="text-muted">
              {isZeroTime(token.last_used) ? 'Never' : formatRelative(token.last_used)}
            </span>
          ),
        },
        {
          name: 'Expires',
          width: '8rem',
          cell: (token) =>
            new Date(token.expires_at).getTime() < serverNow() ? (
              <Badge tone="warn">Expired</Badge>
            ) : (
              <span className="text-muted">{formatDate(token.expires_at)}</span>
            ),
        },
        actionsColumn((token: APIKeyWithOwner) => (
          <IconButton
            icon={Trash2}
            size="sm"
            label={`Delete the token ${token.token_name}`}
            onClick={() => onDelete(token)}
          />
        )),
      ]}
    />
  );
}
