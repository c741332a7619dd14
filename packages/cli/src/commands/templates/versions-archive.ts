import { versionsCommand } from './versions-command.ts';

export default versionsCommand('archive', 'Archive');
