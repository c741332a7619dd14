import { join } from 'node:path';
import { homeFolder } from '@ropewalk/kit/home';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { mergeJson } from './config-file.ts';
import { addServer } from './entry.ts';

const flags = {
  project: {
    type: 'bool',
    env: 'CODER_MCP_CURSOR_PROJECT',
    description: 'Add the server for the project in the current directory only.',
  },
} as const;

export default command({ flags, help: 'Adds the server to .cursor/mcp.json.' }, async (ctx, { flags: given }) => {
  const file = join(given.project ? process.cwd() : homeFolder(ctx.env), '.cursor/mcp.json');
  await mergeJson(file, (config) => addServer(ctx, config));
  printDone(ctx, `Added the server to ${file}.`);
});
