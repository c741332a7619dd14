// One deployment under load: the server's own process, PostgreSQL, and the rows of its people.
import { ALLOCATOR } from '@ropewalk/kit/allocator';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import {
  ensureExecutable,
  firstUser,
  importEnds,
  makeTemplate,
  postVersion,
  type ServerProcess,
  SOURCES,
  startCoderServer,
} from '../../e2e/harness.ts';
import { startDaemons } from './daemons.ts';
import type { Counts } from './options.ts';
import { insertPeople, insertWorkspaces, type Machine, type Person } from './population.ts';

export const PSK = 'bench pre-shared key';
/** The tag of versions whose jobs the scripted daemons take. */
export const PLAYED = { played: 'yes' };
/** Real agents, for terminals, SSH sessions and forwarded ports. */
const REAL_MACHINES = 5;

const TEMPLATE = {
  'main.tf': `data "coder_parameter" "size" {
  name    = "size"
  default = "small"
  mutable = true
  option {
    name  = "Small"
    value = "small"
  }
  option {
    name  = "Large"
    value = "large"
  }
}
data "coder_parameter" "name" {
  name    = "name"
  default = "disk-\${data.coder_parameter.size.value}"
  mutable = true
}
`,
};

export interface Site {
  server: ServerProcess;
  sql: Sql;
  databaseUrl: string;
  people: Person[];
  /** Workspaces of scripted agents: the first of the first person, and so on. */
  machines: Machine[];
  /** Workspaces of real agents. */
  realMachines: Machine[];
  /** Stopped workspaces, which builds start. */
  stopped: Machine[];
  /** The template of all these. */
  versionId: string;
  /** A template whose builds Terraform runs. */
  realTemplate: string;
  stop(): Promise<void>;
}

/** Removes what has been started so far if a later step fails. */
export async function startSite(counts: Counts, { sources }: { sources: boolean }): Promise<Site> {
  const program = sources ? SOURCES : [await ensureExecutable()];
  const database = await freshDatabase();
  const closers: (() => Promise<unknown>)[] = [() => database.drop()];
  const stop = async () => {
    for (const close of closers.toReversed()) await close();
  };
  try {
    const server = await startCoderServer({
      program,
      env: {
        // as the image and the systemd units start it
        ...ALLOCATOR,
        CODER_PG_CONNECTION_URL: database.url,
        CODER_VERBOSE: 'false',
        CODER_PROVISIONER_DAEMONS: '2',
        CODER_PROVISIONER_DAEMON_PSK: PSK,
        CODER_MAX_FORMS_PER_USER: '0',
      },
    });
    closers.push(() => server.stop());
    await firstUser(server);
    const realTemplate = await makeTemplate(server, 'real', { 'main.tf': 'resource "terraform_data" "x" {}' });
    const { template, versionId } = await playedTemplate(server);
    const sql = connect(database.url, { max: 1 });
    closers.push(() => sql.end());
    const people = await insertPeople(sql, Math.max(counts.agents, counts.builds, counts.lists, REAL_MACHINES));
    const machines = await insertWorkspaces(sql, template, { count: counts.agents, owners: people });
    const stopped = await insertWorkspaces(sql, template, {
      count: counts.builds,
      owners: people,
      prefix: 'stopped',
      transition: 'stop',
    });
    const isUsed = counts.terminals + counts.ssh + counts.forwards > 0;
    const realMachines = isUsed
      ? await insertWorkspaces(sql, template, { count: REAL_MACHINES, owners: people, prefix: 'real' })
      : [];
    // as the database does by itself
    await sql`VACUUM ANALYZE`;
    const rows = { people, machines, realMachines, stopped, versionId, realTemplate };
    return { server, sql, databaseUrl: database.url, ...rows, stop };
  } catch (err) {
    await stop();
    throw err;
  }
}

/** A template whose versions the scripted daemons import and build. */
async function playedTemplate(server: ServerProcess): Promise<{ template: string; versionId: string }> {
  const daemons = await startDaemons({
    url: server.url,
    psk: PSK,
    daemons: [{ name: 'importer', tags: PLAYED }],
  });
  try {
    const posted = await postVersion(server, TEMPLATE, { tags: PLAYED });
    const version = await importEnds(server, posted.id);
    const { status, body } = await server.api<{ id: string }>('POST', '/organizations/default/templates', {
      name: 'played',
      template_version_id: version.id,
      template_use_classic_parameter_flow: false,
    });
    if (status !== 201) throw new Error(`creating the template answered ${status}: ${JSON.stringify(body)}`);
    return { template: body.id, versionId: version.id };
  } finally {
    daemons.stop();
  }
}
