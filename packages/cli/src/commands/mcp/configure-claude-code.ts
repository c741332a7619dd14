import { resolve } from 'node:path';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { printDone, warn } from '../../framework/io.ts';
import type { ValuesOf } from '../../framework/types.ts';
import { expandHome } from '../../lib/expand-home.ts';
import { type JsonObject, mergeJson, mergeText, objectIn } from './config-file.ts';
import { addServer } from './entry.ts';
import { agentApiFlag } from './flags.ts';

const flags = {
  'claude-config-path': {
    type: 'string',
    env: 'CODER_MCP_CLAUDE_CONFIG_PATH',
    default: '~/.claude.json',
    description: 'Path of the settings of Claude Code.',
  },
  'claude-md-path': {
    type: 'string',
    env: 'CODER_MCP_CLAUDE_MD_PATH',
    default: '~/.claude/CLAUDE.md',
    description: 'Path of the file with instructions for Claude Code.',
  },
  'claude-api-key': {
    type: 'string',
    env: 'CLAUDE_API_KEY',
    description: 'API key to store in the settings. Default: none, so that Claude Code asks for one.',
  },
  'mcp-claude-api-key': { type: 'string', env: 'CODER_MCP_CLAUDE_API_KEY', hidden: true },
  'claude-system-prompt': {
    type: 'string',
    env: 'CODER_MCP_CLAUDE_SYSTEM_PROMPT',
    default: 'Report that you are ready for input, and wait for it.',
    description: 'Instructions to write to the file of --claude-md-path.',
  },
  'claude-coder-prompt': {
    type: 'string',
    env: 'CODER_MCP_CLAUDE_CODER_PROMPT',
    description: 'More instructions, about the tools of this server.',
  },
  'claude-app-status-slug': {
    type: 'string',
    env: 'CODER_MCP_APP_STATUS_SLUG',
    description: 'Slug of the app that shows reports of Claude Code about its task.',
  },
  ...agentApiFlag,
  'claude-test-binary-name': { type: 'string', env: 'CODER_MCP_CLAUDE_TEST_BINARY_NAME', hidden: true },
  'claude-code-use-bedrock': { type: 'string', env: 'CLAUDE_CODE_USE_BEDROCK', hidden: true },
} as const;

const help =
  'Adds the server to the settings of Claude Code for one project, lets it report about its task, and lets Claude Code ' +
  'start without questions, as it must in a workspace for a task: it trusts the project, and the warning about ' +
  'skipped permissions counts as read. Instructions go to CLAUDE.md, between marks that the next run replaces.';

const REPORT_TOOL = 'mcp__coder__coder_report_task';
const REPORT_PROMPT =
  'Report each step of your work with the tool coder_report_task, and report when you need a person.';

export default command({ args: { 'project-directory': {} }, flags, help }, async (ctx, { args, flags: given }) => {
  const project = resolve(expandHome(args['project-directory'], ctx.env));
  const key = given['claude-api-key'] || given['mcp-claude-api-key'];
  if (key === '' && given['claude-code-use-bedrock'] !== '1')
    warn(ctx, 'no --claude-api-key: Claude Code asks for one, or for a login.');
  const settings = expandHome(given['claude-config-path'], ctx.env);
  await mergeJson(settings, (config) => configure(ctx, config, { project, key, given }));
  printDone(ctx, `Added the server to ${settings}.`);
  const instructions = expandHome(given['claude-md-path'], ctx.env);
  const slug = given['claude-app-status-slug'];
  const tools = [slug === '' ? '' : REPORT_PROMPT, given['claude-coder-prompt']].filter(Boolean).join('\n\n');
  await mergeText(instructions, (before) =>
    [block('coder-prompt', tools), block('system-prompt', systemPrompt(ctx, given)), withoutBlocks(before)].join(''),
  );
  printDone(ctx, `Wrote instructions to ${instructions}.`);
});

type Given = ValuesOf<typeof flags>;

/** The variable of older templates comes first, as upstream's. */
const systemPrompt = (ctx: Context, given: Given): string => ctx.env['SYSTEM_PROMPT'] ?? given['claude-system-prompt'];

async function configure(
  ctx: Context,
  config: JsonObject,
  { project, key, given }: { project: string; key: string; given: Given },
): Promise<void> {
  if (key !== '') config['primaryApiKey'] = key;
  config['hasCompletedOnboarding'] = true;
  config['bypassPermissionsModeAccepted'] = true;
  config['hasAcknowledgedCostThreshold'] = true;
  config['autoUpdaterStatus'] = 'disabled';
  const own = objectIn(objectIn(config, 'projects'), project);
  const tools = Array.isArray(own['allowedTools']) ? (own['allowedTools'] as unknown[]) : [];
  own['allowedTools'] = tools.includes(REPORT_TOOL) ? tools : [...tools, REPORT_TOOL];
  own['hasTrustDialogAccepted'] = true;
  own['hasCompletedProjectOnboarding'] = true;
  const { 'claude-app-status-slug': slug, 'ai-agentapi-url': url, 'claude-test-binary-name': program } = given;
  await addServer(ctx, own, {
    env: {
      ...(slug === '' ? {} : { CODER_MCP_APP_STATUS_SLUG: slug }),
      ...(url === '' ? {} : { CODER_MCP_AI_AGENTAPI_URL: url }),
    },
    ...(program === '' ? {} : { program }),
  });
}

const block = (name: string, text: string): string => `<${name}>\n${text}\n</${name}>\n`;

/** The text without the blocks of an earlier run. */
function withoutBlocks(text: string): string {
  const rest = text.replace(/<(coder-prompt|system-prompt)>[\s\S]*?<\/\1>\n?/g, '').trim();
  return rest === '' ? '' : `${rest}\n`;
}
