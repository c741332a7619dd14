import { userStatusCommand } from '../../lib/user-status.ts';

export default userStatusCommand('activate', 'Activate', 'active');
