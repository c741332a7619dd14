import { CircleStop, Play, RefreshCw, Trash2 } from 'lucide-react';
export const BULK_ACTIONS = [
  { action: 'start', name: 'Start', icon: Play },
  { action: 'stop', name: 'Stop', icon: CircleStop },
  { action: 'update', name: 'Update', icon: RefreshCw },
  { action: 'delete', name: 'Delete', icon: Trash2 },
] as const;

export const countedWorkspaces = (n: number) => `${n.toLocaleString()} ${n === 1 ? 'workspace' : 'workspaces'}`;
