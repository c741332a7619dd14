import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import {
  createTestTemplate,
  eventually,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

const MAIN = join(import.meta.dirname, '../../main.ts');
const folder = mkdtempSync(join(tmpdir(), 'mcp-'));
const socketPath = join(folder, 'agent.sock');

let server: TestServer;
let workspace: TestWorkspace;
let client: Client;
before(async () => {
  server = await startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.example.com' } });
  workspace = await startTestWorkspace(server, 'dev', { socketPath });
  client = await connect();
});
after(async () => {
  await client.close();
  await workspace.stop();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const envOf = (env: Record<string, string> = {}): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  HOME: folder,
  CODER_URL: server.url,
  CODER_SESSION_TOKEN: server.adminToken,
  ...env,
});

async function connect(argv: string[] = [], env: Record<string, string> = {}): Promise<Client> {
  const made = new Client({ name: 'test', version: '1' });
  await made.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [MAIN, 'exp', 'mcp', 'server', ...argv],
      env: envOf(env),
      stderr: 'ignore',
    }),
  );
  return made;
}

/** Calls a tool and returns its text, and whether that is an error. */
async function callText(name: string, args: Record<string, unknown> = {}, by = client) {
  const result = (await by.callTool({ name, arguments: args })) as CallToolResult;
  const [content] = result.content;
  assert.equal(content?.type, 'text');
  return { text: (content as { text: string }).text, isError: result.isError === true };
}
// biome-ignore lint/suspicious/noExplicitAny: tests read any field of any result
async function call(name: string, args: Record<string, unknown> = {}): Promise<any> {
  const { text, isError } = await callText(name, args);
  assert.ok(!isError, `${name}: ${text}`);
  return JSON.parse(text);
}
async function fails(name: string, args: Record<string, unknown>, expected: RegExp): Promise<void> {
  const { text, isError } = await callText(name, args);
  assert.ok(isError, `${name} accepts ${JSON.stringify(args)}: ${text}`);
  assert.match(text, expected);
}

test('offers every tool with valid schemas and the hints of its effect', async () => {
  assert.equal(client.getServerVersion()?.name, 'Coder');
  const { tools } = await client.listTools();
  assert.equal(tools.length, 32, tools.map(({ name }) => name).join());
  const named = new Map(tools.map((tool) => [tool.name, tool]));
  assert.ok(!named.has('coder_report_task'), 'no reporter');
  assert.deepEqual(named.get('coder_workspace_bash')?.inputSchema.required, ['workspace', 'command']);
  assert.equal(named.get('coder_workspace_ls')?.annotations?.readOnlyHint, true);
  assert.equal(named.get('coder_delete_template')?.annotations?.destructiveHint, true);
  for (const { name, description, inputSchema } of tools) {
    assert.equal(inputSchema.type, 'object', name);
    assert.ok(description && description.length > 10, name);
  }
});

test('reads people, workspaces and templates', async () => {
  const template = await createTestTemplate(server, 'second');
  assert.equal((await call('coder_get_authenticated_user')).username, 'admin');
  const [listed] = await call('coder_list_workspaces');
  assert.equal(listed.name, 'dev');
  for (const id of ['dev', 'admin/dev', workspace.workspace.id])
    assert.equal((await call('coder_get_workspace', { workspace_id: id })).id, workspace.workspace.id);
  const templates = (await call('coder_list_templates')) as { id: string }[];
  assert.ok(templates.some(({ id }) => id === template.id));
  const detail = await call('coder_get_template', { template_id: template.id });
  assert.deepEqual([detail.name, detail.parameters], ['second', []]);
  const versions = { template_version_id: template.active_version_id };
  assert.deepEqual(await call('coder_template_version_parameters', versions), []);
  assert.ok(Array.isArray(await call('coder_get_template_version_logs', versions)));
  assert.ok(Array.isArray(await call('coder_get_workspace_agent_logs', { workspace_agent_id: workspace.agentId })));
  const build = workspace.workspace.latest_build.id;
  assert.ok(Array.isArray(await call('coder_get_workspace_build_logs', { workspace_build_id: build })));
  assert.deepEqual(await call('coder_list_tasks'), { tasks: [] });
});

test('searches and fetches for clients with two tools', async () => {
  const { results } = await call('search', { query: 'workspaces/name:dev' });
  assert.equal(results.length, 1);
  assert.equal(results[0].url, `${server.url}/@admin/dev`);
  const found = await call('fetch', { id: results[0].id });
  assert.equal(JSON.parse(found.text).name, 'dev');
  const templates = await call('search', { query: 'templates' });
  assert.ok((await call('fetch', { id: templates.results[0].id })).title);
  await fails('search', { query: 'people' }, /Invalid query/);
  await fails('fetch', { id: 'x' }, /Invalid id/);
});

test('makes templates and workspaces from uploaded files', async () => {
  const template = await createTestTemplate(server, 'third');
  const { hash } = await call('coder_upload_tar_file', { files: { 'main.tf': 'terraform {}', 'x/y.tf': '' } });
  const version = await call('coder_create_template_version', { file_id: hash });
  assert.equal(version.job.status, 'pending');
  await fails('coder_upload_tar_file', { files: {} }, /files is empty/);
  await fails('coder_upload_tar_file', { files: { '../x': '' } }, /Invalid file name/);
  const made = await call('coder_create_workspace', {
    user: 'me',
    name: 'made',
    rich_parameters: {},
    template_id: template.id,
  });
  assert.equal(made.name, 'made');
  await call('coder_update_template_active_version', {
    template_id: template.id,
    template_version_id: template.active_version_id,
  });
  await fails('coder_create_workspace_build', { workspace_id: made.id, transition: 'stop' }, /./);
});

test('reports bad arguments as results that a model can correct', async () => {
  await fails('coder_get_workspace', {}, /workspace_id is missing.*Arguments: workspace_id/);
  await fails('coder_get_workspace', { workspace_id: 5 }, /workspace_id must be string/);
  await fails('coder_get_workspace', { workspace_id: 'x', wrong: 1 }, /"wrong" is unknown/);
  await fails('coder_get_workspace', { workspace_id: 'a/b/c' }, /Invalid workspace/);
  await fails('coder_get_workspace', { workspace_id: 'none' }, /not found/i);
  await fails('coder_get_template', { template_id: 'x' }, /must be a UUID/);
  await fails('coder_list_workspaces', { owner: 'me status:running' }, /Invalid owner/);
  await fails('coder_create_workspace', { user: 'me', name: 'x', rich_parameters: {} }, /either template_id or/);
  const stop = { workspace_id: workspace.workspace.id, transition: 'stop' };
  await fails('coder_create_workspace_build', { ...stop, rich_parameters: { a: 'b' } }, /Only a start/);
  await fails('coder_create_workspace_build', { ...stop, transition: 'explode' }, /transition/);
  await assert.rejects(client.callTool({ name: 'none' }), /Unknown tool: none/);
});

test('runs commands in a workspace', async () => {
  const bash = (command: string, more: object = {}) =>
    call('coder_workspace_bash', { workspace: 'dev', command, ...more });
  assert.deepEqual(await bash('echo out; echo err >&2; exit 3'), { output: 'out\nerr', exit_code: 3 });
  const late = await bash('echo first; sleep 60', { timeout_ms: 500 });
  assert.equal(late.exit_code, 124);
  assert.match(late.output, /^first\n\[The command was ended after 0.5 s/);
  const big = await bash('head -c 2000000 /dev/zero | tr "\\0" a; echo end');
  assert.ok(big.output.length < 300_000 && big.output.endsWith('end'), `${big.output.length}`);
  assert.match(big.output, /bytes are left out here/);
  const behind = await bash(`echo "it's up"; sleep 3; echo 'done' > after`, { background: true, timeout_ms: 1_000 });
  assert.equal(behind.exit_code, 124);
  assert.match(behind.output, /^it's up\n\n\[The command goes on in the background/);
  await eventually('the command goes on', async () => (await bash('cat after')).output === 'done');
  assert.deepEqual(await bash('echo quick; exit 4', { background: true }), { output: 'quick', exit_code: 4 });
  await fails('coder_workspace_bash', { workspace: 'dev', command: ' ' }, /command is empty/);
  await fails('coder_workspace_bash', { workspace: 'dev', command: 'x', timeout_ms: 400_000 }, /timeout_ms/);
  await fails('coder_workspace_bash', { workspace: 'dev.none', command: 'x' }, /no agent "none"/);
});

test('a canceled call ends its command', async () => {
  const abort = new AbortController();
  const running = client.callTool(
    { name: 'coder_workspace_bash', arguments: { workspace: 'dev', command: 'echo $$ > pid; exec sleep 300' } },
    undefined,
    { signal: abort.signal },
  );
  const pid = await eventually('the command runs', async () => {
    const { text } = await callText('coder_workspace_bash', { workspace: 'dev', command: 'cat pid' });
    return /(\d+)/.exec((JSON.parse(text) as { output: string }).output)?.[1];
  });
  abort.abort();
  await assert.rejects(running);
  await eventually('it is gone', async () => {
    const { output } = await call('coder_workspace_bash', { workspace: 'dev', command: `kill -0 ${pid} || echo gone` });
    return /gone/.test(output);
  });
});

test('reads, writes and edits files of a workspace', async () => {
  const path = join(workspace.home, 'deep/er/file.txt');
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const at = { workspace: 'dev', path };
  await call('coder_workspace_write_file', { ...at, content: base64('one\ntwo\none\n') });
  const read = await call('coder_workspace_read_file', at);
  assert.deepEqual(read, { content: base64('one\ntwo\none\n'), mimeType: 'text/plain; charset=utf-8' });
  const part = await call('coder_workspace_read_file', { ...at, offset: 4, limit: 3 });
  assert.equal(part.content, base64('two'));
  assert.equal((await call('coder_workspace_read_file', { ...at, offset: 400 })).content, '');
  const edited = await call('coder_workspace_edit_file', { ...at, edits: [{ search: 'two', replace: 'zwei' }] });
  assert.match(edited.files[0].diff, /\n-two\n\+zwei\n/);
  await fails('coder_workspace_edit_file', { ...at, edits: [{ search: 'one', replace: 'x' }] }, /occurs 2 times/);
  await fails('coder_workspace_edit_file', { ...at, edits: [{ search: 'none', replace: 'x' }] }, /does not occur/);
  const script = join(workspace.home, 'run.sh');
  writeFileSync(script, '#!/bin/sh\n', { mode: 0o755 });
  symlinkSync(script, join(workspace.home, 'link.sh'));
  const both = [
    { path, edits: [{ search: 'one', replace: 'ONE', replace_all: true }] },
    { path: join(workspace.home, 'link.sh'), edits: [{ search: 'sh\n', replace: 'sh -e\n' }] },
  ];
  const spoiled = [both[0], { path: script, edits: [{ search: 'none', replace: '' }] }];
  await fails('coder_workspace_edit_files', { workspace: 'dev', files: spoiled }, /does not occur/);
  assert.equal(readFileSync(path, 'utf8'), 'one\nzwei\none\n', 'no file changes if an edit fails');
  await call('coder_workspace_edit_files', { workspace: 'dev', files: both });
  assert.equal(readFileSync(path, 'utf8'), 'ONE\nzwei\nONE\n');
  assert.equal(readFileSync(script, 'utf8'), '#!/bin/sh -e\n', 'through the link');
  assert.equal(statSync(script).mode & 0o777, 0o755);
  const { contents } = await call('coder_workspace_ls', { workspace: 'dev', path: join(workspace.home, 'deep') });
  assert.deepEqual(contents, [{ path: join(workspace.home, 'deep/er'), is_dir: true }]);
  await fails('coder_workspace_read_file', { ...at, path: 'file.txt' }, /absolute path/);
  await fails('coder_workspace_read_file', { ...at, path: '/none' }, /\/none: it does not exist/);
  await fails('coder_workspace_read_file', { ...at, path: workspace.home }, /is a directory/);
  await fails('coder_workspace_ls', { workspace: 'dev', path: '/none' }, /does not exist/);
  await fails('coder_workspace_write_file', { ...at, content: 'ä' }, /not base64/);
});

test('names apps and ports by their addresses', async () => {
  assert.deepEqual(await call('coder_workspace_list_apps', { workspace: 'dev' }), { apps: [] });
  const { url } = await call('coder_workspace_port_forward', { workspace: 'dev', port: 8080 });
  const agent = (await workspace.look()).name;
  assert.match(url, new RegExp(`^http://8080--${agent}--dev--admin\\.apps\\.example\\.com`));
  await fails('coder_workspace_port_forward', { workspace: 'dev', port: 70_000 }, /port must be/);
});

test('offers only the allowed tools, and reports tasks over the agent of the workspace', async () => {
  const limited = await connect(['--allowed-tools', 'coder_list_templates,coder_report_task'], {
    CODER_MCP_APP_STATUS_SLUG: 'none',
    CODER_AGENT_SOCKET_PATH: socketPath,
  });
  try {
    const { tools } = await limited.listTools();
    assert.deepEqual(tools.map(({ name }) => name).toSorted(), ['coder_list_templates', 'coder_report_task']);
    const report = { summary: 'Testing', link: '', state: 'working' };
    const { text, isError } = await callText('coder_report_task', report, limited);
    assert.ok(isError && /none/.test(text), `the agent's answer arrives: ${text}`);
    const long = await callText('coder_report_task', { ...report, summary: 'x'.repeat(161) }, limited);
    assert.match(long.text, /longer than 160/);
  } finally {
    await limited.close();
  }
  const wrong = await invoke(['exp', 'mcp', 'server', '--allowed-tools', 'none'], envOf());
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /Unknown tool "none"/);
  const nobody = await invoke(['exp', 'mcp', 'server'], { CODER_URL: server.url });
  assert.match(nobody.stderr, /not logged in/);
});

test('answers what arrives before the end of the input, and keeps stdout to the protocol', async () => {
  const lines = [
    { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2024-11-05' } },
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'coder_get_authenticated_user' } },
  ];
  const input = `${lines.map((line) => JSON.stringify(line)).join('\n')}\nno json\n`;
  const { code, stdout } = await invoke(['exp', 'mcp', 'server', '--instructions', 'Be kind.'], envOf(), input);
  assert.equal(code, 0);
  const answers = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.equal(answers.length, 3);
  const byId = new Map(answers.map((one) => [one.id, one]));
  assert.equal(byId.get(1).result.instructions, 'Be kind.');
  assert.equal(byId.get(1).result.protocolVersion, '2024-11-05');
  assert.match(byId.get(2).result.content[0].text, /admin/);
  assert.equal(byId.get(null).error.code, -32700);
  assert.ok(!stdout.includes(server.adminToken));
});

test('configures Claude Code, Claude Desktop and Cursor, and keeps what is there', async () => {
  const home = mkdtempSync(join(folder, 'home-'));
  const env = { HOME: home, CODER_CONFIG_DIR: join(home, '.config/coderv2'), CLAUDE_API_KEY: 'key' };
  const read = (name: string) => JSON.parse(readFileSync(join(home, name), 'utf8'));
  const configure = (...argv: string[]) => invoke(['exp', 'mcp', 'configure', ...argv], env);
  mkdirSync(join(home, '.cursor'));
  writeFileSync(join(home, '.cursor/mcp.json'), '{"mcpServers": {"other": {"command": "x"}}, "a": 1}');
  for (const _ of [1, 2]) {
    for (const argv of [
      ['cursor'],
      ['claude-desktop'],
      ['claude-code', '/project', '--claude-app-status-slug', 'cc'],
    ]) {
      const { code, stderr } = await configure(...argv);
      assert.equal(code, 0, stderr);
    }
  }
  const cursor = read('.cursor/mcp.json');
  assert.deepEqual([cursor.a, cursor.mcpServers.other.command], [1, 'x']);
  assert.deepEqual(cursor.mcpServers.coder.args.slice(-3), ['exp', 'mcp', 'server']);
  assert.ok(read('.config/Claude/claude_desktop_config.json').mcpServers.coder.command);
  const code = read('.claude.json');
  assert.equal(code.primaryApiKey, 'key');
  assert.equal(statSync(join(home, '.claude.json')).mode & 0o777, 0o600);
  const project = code.projects['/project'];
  assert.deepEqual(project.allowedTools, ['mcp__coder__coder_report_task']);
  assert.deepEqual(project.mcpServers.coder.env, { CODER_MCP_APP_STATUS_SLUG: 'cc' });
  const md = join(home, '.claude/CLAUDE.md');
  const first = readFileSync(md, 'utf8');
  assert.equal(first.match(/<coder-prompt>/g)?.length, 1);
  writeFileSync(md, `Mine.\n${first}Also mine.\n`);
  await configure('claude-code', '/project', '--claude-system-prompt', 'New.');
  assert.match(readFileSync(md, 'utf8'), /<system-prompt>\nNew\.\n<\/system-prompt>\nMine\.\nAlso mine\.\n$/);
  writeFileSync(join(home, '.cursor/mcp.json'), '{broken');
  const broken = await configure('cursor');
  assert.match(broken.stderr, /is not valid JSON/);
  assert.equal(readFileSync(join(home, '.cursor/mcp.json'), 'utf8'), '{broken');
});
