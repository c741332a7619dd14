import { userStatusCommand } from './set-status.ts';

export default userStatusCommand('suspend', 'Suspend', 'suspended');
