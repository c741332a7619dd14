import type { TemplateVersion } from '@ropewalk/contract';
import type { TestServer } from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { verifiedDaemon } from '../../../authz/proofs.ts';
import { type DaemonRow, type NewDaemon, PSK_KEY_ID, upsertDaemon } from '../../../db/queries/daemons.ts';
import { acquireJob } from '../../../db/queries/job-queue.ts';
import { enginesOf } from '../engines.ts';
import { type Tags, UNTAGGED } from '../tags.ts';

/** The tags of a job, or a daemon, of the organization with these tags. */
export const tagged = (more: Tags): Tags => ({ ...UNTAGGED, ...more });

/** The engines that a daemon reports as a text, such as `terraform 1.11.4, opentofu 1.9.0`. */
export const reported = (engines: string) => enginesOf({ 'platform-engines': engines });

/** The row of a daemon that was just seen, by default one of the default organization with the pre-shared key. */
export async function insertDaemon(
  server: TestServer,
  name: string,
  tags: Tags,
  more: Partial<NewDaemon> = {},
): Promise<DaemonRow> {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  return upsertDaemon(
    sql,
    verifiedDaemon({
      organization_id: organization!.id,
      name,
      key_id: PSK_KEY_ID,
      credential: name,
      provisioners: ['terraform'],
      tags,
      version: '',
      api_version: '1.8',
      ...more,
    }),
  );
}

/** Takes the next job for this daemon, as if it reported these engines. Undefined if it may take none. */
export function takeWith(
  server: TestServer,
  { id, organization_id: organizationId, provisioners, tags }: DaemonRow,
  engines = '',
) {
  const { engine_versions: engineVersions } = reported(engines);
  const worker = verifiedDaemon({ id, organizationId, provisioners, tags, engineVersions });
  return acquireJob(server.services.sql, { worker, leaseMs: 60_000 });
}

/** Waits until the import waits for this reason: the promised second, and a little more for a busy machine. */
export function becomes(server: TestServer, version: TemplateVersion, reason: string) {
  const look = async () => {
    const { body } = await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`);
    const found = body.job.pending_reason;
    return found?.reason === reason ? found : undefined;
  };
  return eventually(`the reason ${reason}`, look, 1_500);
}
