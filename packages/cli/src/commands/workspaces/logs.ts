import { ApiError, type Client } from '@ropewalk/client';
import type { ProvisionerJobLog, WorkspaceAgent, WorkspaceAgentLog, WorkspaceBuild } from '@ropewalk/contract';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { type Style, styleOf } from '../../framework/style.ts';
import { logText, oneLine } from '../../framework/terminal-text.ts';
import { findBuild } from '../../lib/find-build.ts';
import { followLog } from '../../lib/follow-log.ts';
import { isDone } from '../../lib/job.ts';

const flags = {
  'build-number': {
    type: 'int',
    short: 'n',
    default: '0',
    description: 'Number of the build. 0 is the latest build. A negative number counts back from it.',
  },
  follow: {
    type: 'bool',
    short: 'f',
    default: 'false',
    description: 'Print new lines until the build has ended and a newer build has replaced its agents.',
  },
} as const;

export default command(
  {
    args: { workspace: {} },
    flags,
    help: 'Prints the log of a build, and of the scripts that its agents ran, sorted by time.',
    examples: [
      { does: 'Show the logs of the latest build', run: 'coder logs dev' },
      { does: 'Show the logs of the build before it', run: 'coder logs dev -n -1' },
      { does: 'Wait for new lines', run: 'coder logs dev --follow' },
    ],
  },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const build = await findBuild(client, args.workspace, given['build-number']);
    const { build_number: number, transition, template_version_name: version } = build;
    note(ctx.io, `Build ${number} of ${build.workspace_name}: ${transition}, template version ${version}.`);
    const logs = new WorkspaceLogs(ctx, client, build);
    await logs.printStored();
    if (given.follow) await logs.follow();
  },
);

interface Line {
  /** In ms. Lines are sorted by it. */
  at: number;
  text: string;
}

/** Prints the logs of a build and of its agents, with the same columns as upstream's command. */
class WorkspaceLogs {
  readonly #ctx: Context;
  readonly #client: Client;
  readonly #style: Style;
  #build: WorkspaceBuild;
  /** The id of the last printed line, by the id of the build or agent. */
  readonly #last = new Map<string, number>();

  constructor(ctx: Context, client: Client, build: WorkspaceBuild) {
    this.#ctx = ctx;
    this.#client = client;
    this.#style = styleOf(ctx.io.stdout, ctx.env);
    this.#build = build;
  }

  async printStored(): Promise<void> {
    const { id } = this.#build;
    const ofBuild = this.#client
      .call('GET /workspacebuilds/{workspacebuild}/logs', { params: { workspacebuild: id } })
      .then((logs) => logs.map((log) => this.#buildLine(log)));
    const ofAgents = this.#agents().map(async (agent) => {
      const params = { workspaceagent: agent.id };
      const logs = await this.#client.call('GET /workspaceagents/{workspaceagent}/logs', { params });
      return logs.map((log) => this.#agentLine(agent, log));
    });
    const lines = (await Promise.all([ofBuild, ...ofAgents])).flat();
    for (const { text } of lines.sort((a, b) => a.at - b.at)) print(this.#ctx.io, text);
  }

  /** Prints new lines of the build until it has ended, then those of its agents until a newer build has replaced them. */
  async follow(): Promise<void> {
    const { id } = this.#build;
    await this.#follow<ProvisionerJobLog>(id, `/workspacebuilds/${id}/logs`, {
      lineOf: (log) => this.#buildLine(log),
      isOver: async () => isDone((await this.#refresh()).job),
    });
    await Promise.all(
      this.#agents().map((agent) =>
        this.#follow<WorkspaceAgentLog>(agent.id, `/workspaceagents/${agent.id}/logs`, {
          lineOf: (log) => this.#agentLine(agent, log),
          isOver: () => this.#isReplaced(),
        }),
      ),
    );
  }

  async #follow<Log extends { id: number }>(
    id: string,
    path: string,
    { lineOf, isOver }: { lineOf: (log: Log) => Line; isOver: () => Promise<boolean> },
  ): Promise<void> {
    await followLog<Log>(this.#client, {
      path,
      after: this.#last.get(id) ?? 0,
      onLine: (log) => print(this.#ctx.io, lineOf(log).text),
      isOver,
      signal: this.#ctx.signal,
    });
  }

  async #refresh(): Promise<WorkspaceBuild> {
    const params = { workspacebuild: this.#build.id };
    this.#build = await this.#client.call('GET /workspacebuilds/{workspacebuild}', { params });
    return this.#build;
  }

  async #isReplaced(): Promise<boolean> {
    try {
      const params = { workspace: this.#build.workspace_id };
      const { latest_build: latest } = await this.#client.call('GET /workspaces/{workspace}', { params });
      return latest.id !== this.#build.id;
    } catch (err) {
      // the build deleted the workspace
      if (err instanceof ApiError && (err.status === 404 || err.status === 410)) return true;
      throw err;
    }
  }

  #agents(): WorkspaceAgent[] {
    return this.#build.resources.flatMap(({ agents = [] }) => agents);
  }

  #buildLine({ id, created_at, log_level, stage, output }: ProvisionerJobLog): Line {
    return this.#line(this.#build.id, { id, created_at, level: log_level, from: `provisioner|${stage}`, output });
  }

  #agentLine(agent: WorkspaceAgent, { id, created_at, level, source_id, output }: WorkspaceAgentLog): Line {
    const source = agent.log_sources.find((one) => one.id === source_id)?.display_name;
    const from = `agent.${agent.name}${source ? `|${source}` : ''}`;
    return this.#line(agent.id, { id, created_at, level, from, output });
  }

  #line(
    log: string,
    line: { id: number; created_at: string; level: WorkspaceAgentLog['level']; from: string; output: string },
  ): Line {
    this.#last.set(log, line.id);
    const time = line.created_at.replace(/\.\d+/, '');
    const level = `[${line.level}]`;
    const from = this.#style('dim', `[${oneLine(line.from)}]`);
    const colored = line.level === 'error' ? 'red' : line.level === 'warn' ? 'yellow' : 'dim';
    const text = `${this.#style('dim', time)} ${this.#style(colored, level)} ${from} ${logText(line.output)}`;
    return { at: Date.parse(line.created_at), text: text.trimEnd() };
  }
}
