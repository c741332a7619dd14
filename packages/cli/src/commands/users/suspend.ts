import { userStatusCommand } from '../../lib/user-status.ts';

export default userStatusCommand('suspend', 'Suspend', 'suspended');
