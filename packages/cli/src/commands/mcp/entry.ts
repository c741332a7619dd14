import { join, resolve } from 'node:path';
import { homeFolder } from '@ropewalk/kit/home';
import type { Context } from '../../framework/context.ts';
import { type JsonObject, objectIn } from './config-file.ts';

/** The name of this server in the files of other programs. */
const NAME = 'coder';

interface EntryOptions {
  env?: Record<string, string>;
  /** The path of the coder command. Default: this program. */
  program?: string;
}

/** Adds the command that serves MCP to `mcpServers` of a configuration. Other servers stay. */
export async function addServer(ctx: Context, config: JsonObject, { env, program }: EntryOptions = {}): Promise<void> {
  const { selfCommand } = await import('../daemons/self.ts');
  const [command, ...before] = program ? [program] : selfCommand();
  const dir = resolve(ctx.configDir);
  const elsewhere = dir === join(homeFolder(ctx.env), '.config/coderv2') ? [] : ['--global-config', dir];
  objectIn(config, 'mcpServers')[NAME] = {
    command,
    args: [...before, 'exp', 'mcp', 'server', ...elsewhere],
    ...(env ? { env } : {}),
  };
}
