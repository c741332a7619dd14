import { versionsCommand } from './versions-command.ts';

export default versionsCommand('unarchive', 'Unarchive');
