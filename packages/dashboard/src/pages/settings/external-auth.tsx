import { useQuery } from '@tanstack/react-query';
import { CircleCheck, Link2, TriangleAlert, Unlink } from 'lucide-react';
import { useState } from 'react';
import { type Account, accountsOf, accountsQuery, connectHref } from '../../api/accounts.ts';
import { call } from '../../api/client.ts';
import { useSitePermissions } from '../../api/permissions.ts';
import { queryClient } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Avatar } from '../../ui/avatar.tsx';
import { Button, buttonClass, LinkButton } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { paths } from '../../util/paths.ts';
import { formatDate } from '../../util/time.ts';

export default function ExternalAccountsPage() {
  const accounts = useQuery(accountsQuery);
  const may = useSitePermissions();
  const [ended, setEnded] = useState<Account>();
  const name = ended?.provider.display_name ?? '';
  return (
    <SidebarPage
      title="External accounts"
      area="Settings"
      description="Your workspaces and Git in them use these accounts on your behalf."
      narrow
    >
      <QueryView query={accounts} loading={<SkeletonLines lines={4} />}>
        {(answer) => {
          const rows = accountsOf(answer);
          return (
            <Section flush>
              {rows.length === 0 ? (
                <EmptyState
                  icon={Link2}
                  title="No services to connect"
                  action={
                    may.readDeploymentConfig && (
                      <LinkButton to={paths.deployment('external-auth')}>External authentication</LinkButton>
                    )
                  }
                >
                  An administrator of this server configures Git hosts and other services.
                </EmptyState>
              ) : (
                <ul className="divide-y divide-line">
                  {rows.map((account) => (
                    <Row key={account.provider.id} account={account} onDisconnect={() => setEnded(account)} />
                  ))}
                </ul>
              )}
            </Section>
          );
        }}
      </QueryView>
      <ConfirmDialog
        open={ended !== undefined}
        onClose={() => setEnded(undefined)}
        title={`Disconnect ${name}?`}
        action="Disconnect"
        danger
        onConfirm={async () => {
          const { provider } = ended!;
          const { token_revocation_error: problem } = await call('DELETE /external-auth/{externalauth}', {
            params: { externalauth: provider.id },
          });
          await queryClient.invalidateQueries({ queryKey: accountsQuery.queryKey });
          if (problem !== undefined) {
            toast({
              title: `${name} was disconnected, but did not revoke its token.`,
              detail: `${problem} Revoke the access in your settings there.`,
            });
          }
        }}
      >
        Git in your workspaces can no longer reach your repositories there until you connect the account again.
      </ConfirmDialog>
    </SidebarPage>
  );
}

function Row({ account: { provider, link }, onDisconnect }: { account: Account; onDisconnect: () => void }) {
  const broken = link !== undefined && !link.authenticated;
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-2 px-4 py-3">
      <Avatar name={provider.display_name} src={provider.display_icon} size={24} square />
      <div className="min-w-40 flex-1">
        <div className="break-words font-medium">{provider.display_name}</div>
        {broken ? (
          <div className="flex items-start gap-1.5 break-words text-sm text-warn">
            <TriangleAlert size={14} aria-hidden="true" className="mt-0.5 shrink-0" />
            {link.validate_error || 'The account has to be connected again.'}
          </div>
        ) : link ? (
          <div className="flex items-center gap-1.5 text-good text-sm">
            <CircleCheck size={14} aria-hidden="true" />
            Connected {formatDate(link.created_at)}
          </div>
        ) : (
          <div className="text-muted text-sm">Not connected</div>
        )}
      </div>
      <div className="flex flex-wrap gap-2">
        {(!link || broken) && (
          <a
            href={connectHref(provider, paths.settings('external-auth'))}
            aria-label={`${broken ? 'Reconnect' : 'Connect'} ${provider.display_name}`}
            className={buttonClass(broken ? 'primary' : 'default', 'sm')}
          >
            {broken ? 'Reconnect' : 'Connect'}
          </a>
        )}
        {link && (
          <Button size="sm" icon={Unlink} aria-label={`Disconnect ${provider.display_name}`} onClick={onDisconnect}>
            Disconnect
          </Button>
        )}
      </div>
    </li>
  );
}
