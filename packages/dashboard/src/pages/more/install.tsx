import { queryOptions, useQuery } from '@tanstack/react-query';
import { Download } from 'lucide-react';
import { buildInfoQuery } from '../../api/me.ts';
import { buttonClass } from '../../ui/button.tsx';
import { CodeBlock, CodeLine, CopyButton } from '../../ui/copy.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { type Executable, powershellCommand, readFingerprint, readSums, shellCommand } from './install.ts';

const executablesQuery = queryOptions({
  queryKey: ['executables'],
  async queryFn() {
    const answer = await fetch('/bin/SHA256SUMS');
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    return readSums(await answer.text());
  },
});

const fingerprintQuery = queryOptions({
  queryKey: ['signing-key'],
  async queryFn() {
    const answer = await fetch('/bin/signing-key.asc');
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    return readFingerprint(await answer.text());
  },
});

/** How to install this server's coder program and sign in with it. */
export default function InstallPage() {
  const server = useQuery(buildInfoQuery).data?.dashboard_url || location.origin;
  const executables = useQuery(executablesQuery);
  const fingerprint = useQuery(fingerprintQuery).data;
  const windows = executables.data?.filter(({ system }) => system === 'Windows') ?? [];
  return (
    <Page
      title="Install the command line"
      description="The coder program connects your terminal and editor to workspaces, and starts workspaces and provisioner daemons."
      width="narrow"
    >
      <Section title="1. Install">
        <div className="flex flex-col gap-1.5">
          <span className="text-muted text-sm">Linux and macOS</span>
          <CodeLine wrap code={shellCommand(server)} label="Copy the command" />
        </div>
        {windows.map(({ file, architecture }) => (
          <div key={file} className="flex flex-col gap-1.5">
            <span className="text-muted text-sm">Windows ({architecture}), in PowerShell</span>
            <CodeLine wrap code={powershellCommand(server, file)} label="Copy the command" />
          </div>
        ))}
      </Section>
      <Section title="2. Sign in">
        <CodeLine wrap code={`coder login ${server}`} label="Copy the command" />
      </Section>
      <Section title="3. Connect" description="coder config-ssh sets up ssh, scp and editors.">
        <CodeBlock code={'coder ssh WORKSPACE\ncoder config-ssh'} label="Copy the commands" />
      </Section>
      <Section title="Downloads" description="For machines without access to a shell." flush>
        <QueryView query={executables} loading={<Downloads rows={undefined} />}>
          {(rows) => <Downloads rows={rows} />}
        </QueryView>
      </Section>
      {fingerprint && (
        <Section
          title="Signatures"
          description={
            <>
              Each download has an OpenPGP signature: append .asc to its address. The{' '}
              <a href="/bin/signing-key.asc" className="underline">
                key of this deployment
              </a>{' '}
              has this fingerprint:
            </>
          }
        >
          <CodeLine wrap code={fingerprint} label="Copy the fingerprint" />
        </Section>
      )}
    </Page>
  );
}

function Downloads({ rows }: { rows: readonly Executable[] | undefined }) {
  return (
    <Table
      label="Downloads"
      rows={rows}
      rowKey={({ file }) => file}
      empty={<EmptyState title="No downloads">The server is still building them. Come back in a minute.</EmptyState>}
      columns={[
        {
          name: 'System',
          cell: ({ system, architecture }) => (
            <span>
              {system} <span className="text-muted">{architecture}</span>
            </span>
          ),
        },
        {
          name: 'SHA-256',
          wideOnly: true,
          width: 'minmax(0,2fr)',
          cell: ({ sum, file }) => (
            <span className="flex min-w-0 items-center gap-1">
              <code className="truncate font-mono text-muted text-xs">{sum}</code>
              <CopyButton text={sum} label={`Copy the checksum of ${file}`} />
            </span>
          ),
        },
        {
          name: '',
          label: 'Download',
          width: '2.5rem',
          align: 'end',
          cell: ({ file }) => (
            <a
              href={`/bin/${file}`}
              download
              aria-label={`Download ${file}`}
              title={`Download ${file}`}
              className={buttonClass('ghost', 'sm', true)}
            >
              <Download size={16} aria-hidden="true" />
            </a>
          ),
        },
      ]}
    />
  );
}
