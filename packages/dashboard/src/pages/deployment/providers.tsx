import type { ExternalAuthConfig } from '@ropewalk/contract';
import { Avatar } from '../../ui/avatar.tsx';
import { Badge } from '../../ui/badge.tsx';
import { LinkButton } from '../../ui/button.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';

/** The external auth providers in force. */
export function Providers({ providers }: { providers: readonly ExternalAuthConfig[] }) {
  if (providers.length === 0) {
    return (
      <EmptyState title="No provider is configured" action={<LinkButton to={paths.deployment()}>Overview</LinkButton>}>
        Set CODER_EXTERNAL_AUTH_0_TYPE, CODER_EXTERNAL_AUTH_0_CLIENT_ID and CODER_EXTERNAL_AUTH_0_CLIENT_SECRET, and
        restart the server.
      </EmptyState>
    );
  }
  return providers.map((provider) => (
    <Section
      key={provider.id}
      flush
      title={
        <span className="flex items-center gap-2">
          <Avatar name={provider.display_name} src={provider.display_icon} size={20} square />
          {provider.display_name}
        </span>
      }
      actions={
        <>
          {provider.device_flow && <Badge>Device flow</Badge>}
          <Badge>{provider.type}</Badge>
        </>
      }
    >
      <dl className="divide-y divide-line">
        {factsOf(provider).map(([name, value]) => (
          <div key={name} className="grid gap-x-6 gap-y-0.5 px-4 py-2.5 sm:grid-cols-[10rem_minmax(0,1fr)]">
            <dt className="text-muted">{name}</dt>
            <dd className="min-w-0 break-all font-mono text-sm">{value}</dd>
          </div>
        ))}
      </dl>
    </Section>
  ));
}

function factsOf(provider: ExternalAuthConfig): [name: string, value: string][] {
  const facts: [string, string][] = [
    ['ID', provider.id],
    ['Client ID', provider.client_id],
    ['Callback URL', provider.device_flow ? '' : `${location.origin}${paths.connectAccount(provider.id)}`],
    ['Repositories', provider.regex],
    ['Scopes', provider.scopes.join(' ')],
    ['Auth URL', provider.auth_url],
    ['Token URL', provider.token_url],
    ['Validation URL', provider.validate_url],
    ['Device code URL', provider.device_flow ? provider.device_code_url : ''],
    ['App install URL', provider.app_install_url],
  ];
  return facts.filter(([, value]) => value !== '');
}
