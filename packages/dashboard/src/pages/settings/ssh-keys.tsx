import { useQuery } from '@tanstack/react-query';
import { RefreshCw } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { apiQuery, queryClient } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button } from '../../ui/button.tsx';
import { CodeLine } from '../../ui/copy.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Section } from '../../ui/page.tsx';
import { QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { formatDateTime } from '../../util/time.ts';

const keyQuery = apiQuery('GET /users/{user}/gitsshkey', [], { params: { user: 'me' } });

export default function SshKeysPage() {
  const key = useQuery(keyQuery);
  const [asking, setAsking] = useState(false);
  return (
    <SidebarPage
      title="SSH key"
      area="Settings"
      description="Git in your workspaces authenticates with this key."
      narrow
    >
      <Section
        title="Public key"
        actions={
          <Button icon={RefreshCw} size="sm" disabled={!key.data} onClick={() => setAsking(true)}>
            Regenerate
          </Button>
        }
      >
        <QueryView query={key}>
          {(data) => (
            <>
              <CodeLine code={data.public_key.trim()} label="Copy the public key" wrap />
              <p className="text-muted">
                Add it to your account at your Git provider. The private key stays on this server. Made{' '}
                {formatDateTime(data.updated_at)}.
              </p>
            </>
          )}
        </QueryView>
      </Section>
      <ConfirmDialog
        open={asking}
        onClose={() => setAsking(false)}
        title="Regenerate the SSH key?"
        action="Regenerate"
        danger
        onConfirm={async () => {
          const fresh = await call('PUT /users/{user}/gitsshkey', { params: { user: 'me' } });
          queryClient.setQueryData(keyQuery.queryKey, fresh);
          toast({ title: 'The SSH key was regenerated.', detail: 'Add the new public key at your Git provider.' });
        }}
      >
        The current key stops working everywhere. Replace it at each Git provider that has it.
      </ConfirmDialog>
    </SidebarPage>
  );
}
