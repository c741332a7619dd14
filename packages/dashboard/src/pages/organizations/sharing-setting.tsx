import type { Organization, WorkspaceSharingSettings } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Section } from '../../ui/page.tsx';
import { Select } from '../../ui/select.tsx';
import { QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';

type Owners = WorkspaceSharingSettings['shareable_workspace_owners'];
const SETTING = 'GET /organizations/{organization}/settings/workspace-sharing';

const CHOICES = [
  { value: 'everyone', label: 'All members', help: 'Members share their workspaces with each other.' },
  {
    value: 'service_accounts',
    label: 'Service accounts only',
    help: 'Members cannot share their workspaces. Those of service accounts can be shared.',
  },
  { value: 'none', label: 'Nobody', help: 'No workspace of the organization is shared.' },
];

/** Whose workspaces can be shared in an organization. */
export function SharingSetting({ organization }: { organization: Organization }) {
  const setting = useQuery(
    apiQuery(SETTING, [{ kind: 'organization', id: organization.id }], { params: { organization: organization.id } }),
  );
  const [asked, setAsked] = useState<Owners>();
  const save = useChange(
    (owners: Owners) =>
      call('PATCH /organizations/{organization}/settings/workspace-sharing', {
        params: { organization: organization.id },
        body: { shareable_workspace_owners: owners },
      }),
    { refetch: [SETTING], onSuccess: () => toast({ title: 'The setting was changed.' }) },
  );
  const choose = (owners: Owners) => {
    if (owners === 'everyone') save.mutate(owners);
    else setAsked(owners);
  };
  return (
    <Section title="Workspace sharing" description="Whose workspaces can be shared with other members and groups.">
      <QueryView query={setting}>
        {({ shareable_workspace_owners: owners, sharing_globally_disabled: off }) => (
          <>
            {off && <Notice title="The server's configuration prevents sharing in all organizations." />}
            <Select
              className="max-w-xs"
              label="Who can share workspaces"
              value={owners}
              options={CHOICES}
              disabled={off || save.isPending}
              onChange={(value) => choose(value as Owners)}
            />
          </>
        )}
      </QueryView>
      <ConfirmDialog
        open={asked !== undefined}
        onClose={() => setAsked(undefined)}
        title="Stop sharing workspaces?"
        action="Stop sharing"
        danger
        onConfirm={async () => {
          if (asked) await save.mutateAsync(asked);
        }}
      >
        Shared workspaces of the organization are taken back from everyone within seconds. If you allow sharing again,
        their owners must share them again.
      </ConfirmDialog>
    </Section>
  );
}
