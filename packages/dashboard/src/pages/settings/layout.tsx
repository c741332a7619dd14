import { Outlet } from '@tanstack/react-router';
import { useMe } from '../../api/me.ts';
import { SidebarLayout } from '../../layouts/sidebar.tsx';
import { Avatar } from '../../ui/avatar.tsx';
import { paths } from '../../util/paths.ts';

const ENTRIES = [
  { name: 'Account', to: paths.settings('account') },
  { name: 'Appearance', to: paths.settings('appearance') },
  { name: 'Schedule', to: paths.settings('schedule') },
  { name: 'Security', to: paths.settings('security') },
  { name: 'Notifications', to: paths.settings('notifications') },
  { name: 'SSH key', to: paths.settings('ssh-keys') },
  { name: 'External accounts', to: paths.settings('external-auth') },
  { name: 'Secrets', to: paths.settings('secrets') },
  { name: 'Tokens', to: paths.settings('tokens') },
  { name: 'OAuth2 apps', to: paths.settings('oauth2-provider') },
];

export default function SettingsLayout() {
  const me = useMe();
  return (
    <SidebarLayout
      label="Your settings"
      groups={[{ entries: ENTRIES }]}
      top={
        <div className="flex items-center gap-2.5 md:px-2.5">
          <Avatar name={me.username} src={me.avatar_url} />
          <div className="min-w-0">
            <div className="truncate font-medium">{me.name || me.username}</div>
            <div className="truncate text-muted text-sm">{me.email}</div>
          </div>
        </div>
      }
    >
      <Outlet />
    </SidebarLayout>
  );
}
