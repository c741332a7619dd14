import { join } from 'node:path';
import { homeFolder } from '@ropewalk/kit/home';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { mergeJson } from './config-file.ts';
import { addServer } from './entry.ts';

/** The directory in which programs of a user keep their settings. */
function settingsDir(env: NodeJS.ProcessEnv): string {
  if (process.platform === 'darwin') return join(homeFolder(env), 'Library/Application Support');
  if (process.platform === 'win32') return env['APPDATA'] ?? join(homeFolder(env), 'AppData/Roaming');
  return env['XDG_CONFIG_HOME'] || join(homeFolder(env), '.config');
}

export default command(
  { help: 'Adds the server to claude_desktop_config.json. Restart Claude Desktop to use it.' },
  async (ctx) => {
    const file = join(settingsDir(ctx.env), 'Claude/claude_desktop_config.json');
    await mergeJson(file, (config) => addServer(ctx, config));
    printDone(ctx, `Added the server to ${file}.`);
  },
);
