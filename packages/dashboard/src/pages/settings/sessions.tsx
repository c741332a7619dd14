import type { UserSession } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { LogOut } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { apiQuery, queryClient, useChange } from '../../api/query.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Section } from '../../ui/page.tsx';
import { QueryView } from '../../ui/states.tsx';
import { actionsColumn, Table } from '../../ui/table.tsx';
import { formatRelative, useNow } from '../../util/time.ts';

const params = { user: 'me' };
const sessionsQuery = apiQuery('GET /users/{user}/sessions', [], { params });
const refetch = () => queryClient.invalidateQueries({ queryKey: sessionsQuery.queryKey });

/** The browsers and programs in which the person is signed in. */
export function Sessions() {
  const sessions = useQuery(sessionsQuery);
  const [ending, setEnding] = useState(false);
  const end = useChange(
    (session: UserSession) => call('DELETE /users/{user}/keys/{keyid}', { params: { ...params, keyid: session.id } }),
    { onSuccess: refetch },
  );
  const others = sessions.data?.some(({ current }) => !current) ?? false;
  return (
    <Section
      title="Sessions"
      flush
      description="Browsers and programs in which you are signed in. Tokens are not among them."
      actions={
        others && (
          <Button size="sm" onClick={() => setEnding(true)}>
            End all others
          </Button>
        )
      }
    >
      <QueryView query={sessions} loading={<SessionTable rows={undefined} onEnd={() => {}} />}>
        {(rows) => <SessionTable rows={rows} onEnd={(session) => end.mutate(session)} />}
      </QueryView>
      <ConfirmDialog
        open={ending}
        onClose={() => setEnding(false)}
        title="End all other sessions?"
        action="End sessions"
        onConfirm={async () => {
          await call('DELETE /users/{user}/sessions', { params });
          await refetch();
        }}
      >
        Other browsers and programs are signed out immediately. This one stays signed in.
      </ConfirmDialog>
    </Section>
  );
}

function SessionTable({
  rows,
  onEnd,
}: {
  rows: readonly UserSession[] | undefined;
  onEnd: (session: UserSession) => void;
}) {
  const now = useNow(60_000);
  return (
    <Table
      label="Sessions"
      rows={rows}
      rowKey={(session) => session.id}
      columns={[
        {
          name: 'Started from',
          cell: (session) => (
            <span className="flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1">
              <span className="break-all font-mono text-sm">{session.ip_address || 'Unknown'}</span>
              {session.current && <Badge tone="accent">This session</Badge>}
            </span>
          ),
        },
        {
          name: 'Started',
          width: '9rem',
          wideOnly: true,
          cell: (session) => <span className="text-muted">{formatRelative(session.created_at, now)}</span>,
        },
        {
          name: 'Last used',
          width: '8rem',
          cell: (session) => <span className="text-muted">{formatRelative(session.last_used, now)}</span>,
        },
        actionsColumn((session: UserSession) =>
          session.current ? null : (
            <IconButton
              icon={LogOut}
              size="sm"
              label={`End the session from ${session.ip_address || 'an unknown address'}`}
              onClick={() => onEnd(session)}
            />
          ),
        ),
      ]}
    />
  );
}
