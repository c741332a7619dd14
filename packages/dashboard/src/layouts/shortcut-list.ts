import type { SitePermissions } from '../api/permissions.ts';
import { paths } from '../util/paths.ts';

/** A shortcut that opens a page: two keys, one after the other. */
export interface PageShortcut {
  keys: string;
  name: string;
  to: string;
  /** What the person must be permitted, to see it. */
  needs?: keyof SitePermissions;
}

export const PAGE_SHORTCUTS: readonly PageShortcut[] = [
  { keys: 'g w', name: 'Workspaces', to: paths.workspaces() },
  { keys: 'g t', name: 'Templates', to: paths.templates() },
  { keys: 'g s', name: 'Your settings', to: paths.settings() },
  { keys: 'g o', name: 'Organizations', to: '/organizations', needs: 'readMembersAnywhere' },
  { keys: 'g u', name: 'Users', to: paths.users(), needs: 'readUsers' },
  { keys: 'g d', name: 'Deployment', to: paths.deployment(), needs: 'readDeploymentConfig' },
  { keys: 'g h', name: 'Health', to: paths.health(), needs: 'readHealth' },
];

const KEY = 'shortcuts';

/** Whether shortcuts without Ctrl are on. Speech input and unsteady hands trigger them by mistake. */
export function plainKeysOn(): boolean {
  try {
    return localStorage.getItem(KEY) !== 'off';
  } catch {
    return true;
  }
}

export function setPlainKeys(on: boolean): void {
  try {
    localStorage.setItem(KEY, on ? 'on' : 'off');
  } catch {
    // storage is blocked: the shortcuts stay on
  }
}
