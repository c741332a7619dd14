import type { User } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { apiQuery, queryClient } from '../../api/query.ts';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { toast } from '../../ui/toast.tsx';
import { RolesDialog } from '../organizations/roles.tsx';
import { LoginTypeDialog } from './login-type.tsx';
import { ResetPasswordDialog } from './reset-password.tsx';

/** A user, and what the person chose in the user's menu. */
export type AskedUser = { what: 'delete' | 'suspend' | 'roles' | 'password' | 'login-type'; user: User };

export const refetchUsers = () => queryClient.invalidateQueries({ queryKey: ['GET /users'] });

/**
 * The dialogs of the list of users, of which at most one is open. Those that ask for a confirmation stay mounted while
 * they are closed, so that they give the focus back.
 */
export function UserDialogs({ asked, onClose }: { asked: AskedUser | undefined; onClose: () => void }) {
  const roles = useQuery({ ...apiQuery('GET /users/roles', []), enabled: asked?.what === 'roles' });
  const params = { user: asked?.user.id ?? '' };
  return (
    <>
      <ConfirmDialog
        open={asked?.what === 'suspend'}
        onClose={onClose}
        title={`Suspend ${asked?.user.username ?? ''}?`}
        action="Suspend"
        danger
        onConfirm={async () => {
          await call('PUT /users/{user}/status/suspend', { params });
          await refetchUsers();
        }}
      >
        They are signed out immediately and cannot sign in. Their workspaces stay as they are.
      </ConfirmDialog>
      <ConfirmDialog
        open={asked?.what === 'delete'}
        onClose={onClose}
        title={`Delete ${asked?.user.username ?? ''}?`}
        action="Delete user"
        danger
        typeToConfirm={asked?.user.username ?? ''}
        onConfirm={async () => {
          await call('DELETE /users/{user}', { params });
          toast({ title: `${asked!.user.username} was deleted.` });
          await refetchUsers();
        }}
      >
        This cannot be undone. Delete their workspaces first.
      </ConfirmDialog>
      {asked?.what === 'roles' && (
        <RolesDialog
          person={asked.user.username}
          current={asked.user.roles}
          roles={roles}
          onClose={onClose}
          onSave={async (names) => {
            await call('PUT /users/{user}/roles', { params, body: { roles: names } });
            await refetchUsers();
          }}
        />
      )}
      {asked?.what === 'password' && <ResetPasswordDialog user={asked.user} onClose={onClose} />}
      {asked?.what === 'login-type' && <LoginTypeDialog user={asked.user} onClose={onClose} />}
    </>
  );
}
