import { versionsCommand } from '../../lib/versions-command.ts';

export default versionsCommand('archive', 'Archive');
