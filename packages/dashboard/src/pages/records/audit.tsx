import type { AuditLog } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { ScrollText, Server } from 'lucide-react';
import type { ReactNode } from 'react';
import { apiQuery } from '../../api/query.ts';
import { Avatar } from '../../ui/avatar.tsx';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Link } from '../../ui/link.tsx';
import { Facts } from '../../ui/page.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { formatExact, formatRelative, useNow } from '../../util/time.ts';
import { Diff } from './diff.tsx';
import { Entry } from './entry.tsx';
import { programOf, RecordPage, useRecordQuery } from './frame.tsx';
import { auditKeys } from './keys.ts';

const NIL = '00000000-0000-0000-0000-000000000000';

export default function AuditPage() {
  const search = useRecordQuery();
  const now = useNow(30_000);
  const logs = useQuery({
    ...apiQuery('GET /audit', [], { query: search.query }),
    placeholderData: keepPreviousData,
    // entries are added all the time: an opened page shows the newest
    staleTime: 0,
  });
  return (
    <RecordPage
      title="Audit log"
      description="Who changed what, when and from where."
      keys={auditKeys}
      exportPath="/audit/export"
      placeholder="Search, for example resource_type:template action:delete"
      search={search}
      logs={logs}
      entries={logs.data?.audit_logs ?? []}
      empty={
        <EmptyState
          icon={ScrollText}
          title={search.filter ? 'No entry matches' : 'Nothing recorded yet'}
          action={search.filter && <Button onClick={() => search.setFilter('')}>Show all entries</Button>}
        >
          {!search.filter && 'What people and the server change appears here.'}
        </EmptyState>
      }
      label="Entries"
    >
      {(log) => <AuditEntry key={log.id} log={log} now={now} />}
    </RecordPage>
  );
}

function AuditEntry({ log, now }: { log: AuditLog; now: number }) {
  const person = log.user?.username ?? (log.ip ? 'Somebody' : 'The server');
  const sentence = describe(log, person);
  const failed = log.status_code >= 400;
  const fields = Object.entries(log.additional_fields);
  return (
    <Entry
      label={`Details: ${sentence.text}`}
      picture={
        log.user ? (
          <Avatar name={log.user.username} src={log.user.avatar_url} />
        ) : (
          <span className="flex size-7 shrink-0 items-center justify-center rounded-full bg-active text-muted">
            <Server size={14} aria-hidden="true" />
          </span>
        )
      }
      title={sentence.view}
      note={
        <>
          <time dateTime={log.time} title={formatExact(log.time)}>
            {formatRelative(log.time, now)}
          </time>
          {log.ip && <span>from {log.ip}</span>}
          {programOf(log.user_agent) && <span>by {programOf(log.user_agent)}</span>}
          {log.organization && <span>in {log.organization.display_name || log.organization.name}</span>}
        </>
      }
      aside={
        failed ? (
          <Badge tone="bad">{log.status_code}</Badge>
        ) : log.is_deleted && log.action !== 'delete' ? (
          <Badge>deleted since</Badge>
        ) : undefined
      }
    >
      {Object.keys(log.diff).length > 0 && <Diff diff={log.diff} />}
      <Facts
        facts={[
          ['Time', formatExact(log.time)],
          ['Status', String(log.status_code)],
          log.user && ['Person', `${log.user.username} (${log.user.email})`],
          log.ip !== '' && ['Address', log.ip],
          log.user_agent !== '' && [
            'Program',
            <span key="value" className="wrap-anywhere">
              {log.user_agent}
            </span>,
          ],
          log.organization && ['Organization', log.organization.display_name || log.organization.name],
          [
            'Resource',
            <code key="value" className="break-all text-sm">
              {log.resource_id}
            </code>,
          ],
          log.request_id !== NIL && [
            'Request',
            <code key="value" className="break-all text-sm">
              {log.request_id}
            </code>,
          ],
          ...fields.map(
            ([name, value]) =>
              [
                name.replaceAll('_', ' '),
                <span key="value" className="wrap-anywhere">
                  {typeof value === 'string' ? value : JSON.stringify(value)}
                </span>,
              ] as const,
          ),
        ]}
      />
    </Entry>
  );
}

/** The sentence of an entry, with the resource's name as a link to its page. */
function describe(log: AuditLog, person: string): { text: string; view: ReactNode } {
  const fields = log.additional_fields as { workspace_name?: string; build_number?: string };
  const target =
    log.resource_type === 'workspace_build' && fields.workspace_name
      ? `${fields.workspace_name}${fields.build_number ? ` #${fields.build_number}` : ''}`
      : log.resource_target;
  const parts = log.description.split(/(\{user\}|\{target\})/);
  const text = parts
    .map((part) => (part === '{user}' ? person : part === '{target}' ? target : part))
    .join('')
    .trim();
  const view = parts.map((part, at) =>
    part === '{user}' ? (
      <strong key={at} className="font-medium">
        {person}
      </strong>
    ) : part === '{target}' ? (
      log.resource_link ? (
        <Link key={at} to={log.resource_link} className="font-medium">
          {target}
        </Link>
      ) : (
        <strong key={at} className="font-medium">
          {target}
        </strong>
      )
    ) : (
      part
    ),
  );
  return { text, view };
}
