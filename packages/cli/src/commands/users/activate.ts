import { userStatusCommand } from './set-status.ts';

export default userStatusCommand('activate', 'Activate', 'active');
