import type { TemplateVersionExternalAuth } from '@ropewalk/contract';
import { CircleCheck } from 'lucide-react';
import { Avatar } from '../../../ui/avatar.tsx';
import { Badge } from '../../../ui/badge.tsx';
import { buttonClass } from '../../../ui/button.tsx';
import { Section } from '../../../ui/page.tsx';

const accountName = (account: TemplateVersionExternalAuth) => account.display_name || account.id;

/** The accounts at other services that the template uses. */
export function ExternalAccounts({ accounts }: { accounts: readonly TemplateVersionExternalAuth[] }) {
  if (accounts.length === 0) return null;
  return (
    <Section title="Accounts" description="The workspace uses these accounts on your behalf." flush>
      <ul className="divide-y divide-line">
        {accounts.map((account) => (
          <li key={account.id} className="flex flex-wrap items-center gap-3 px-4 py-3">
            <Avatar name={accountName(account)} src={account.display_icon} size={20} square />
            <span className="min-w-0 flex-1 break-words font-medium">
              {accountName(account)} {account.optional && <Badge>Optional</Badge>}
            </span>
            {account.authenticated ? (
              <span className="flex items-center gap-1.5 text-good">
                <CircleCheck size={16} aria-hidden="true" />
                Connected
              </span>
            ) : (
              <a
                href={account.authenticate_url}
                target="_blank"
                rel="noopener opener"
                className={buttonClass('default', 'sm')}
              >
                Log in with {accountName(account)}
              </a>
            )}
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** The names of the accounts without which no workspace can be made. */
export const missingAccounts = (accounts: readonly TemplateVersionExternalAuth[]): string[] =>
  accounts.filter((account) => !account.optional && !account.authenticated).map(accountName);
