import { versionsCommand } from '../../lib/versions-command.ts';

export default versionsCommand('unarchive', 'Unarchive');
