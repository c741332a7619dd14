// The audit log of an old deployment: 1,000,000 entries, one request at a time, by filter. While old entries are purged,
// another request shows how long it waits.
import type { AuditLogResponse } from '@ropewalk/contract';
import { startTestServer, type TestServer } from '@ropewalk/testkit';
import { purgeRecords } from '../packages/server/src/background/purge.ts';
import { percentile, type Row } from './measure.ts';
import { besidePurge } from './purge.ts';

const ENTRIES = 1_000_000;
const PEOPLE = 2_000;
const WARM_UP = 5;
const SAMPLES = 60;
const REACH_MS = 50;

/** Entries of three years. A few people, types and actions make most of them, as in a real deployment. */
async function fill({ services: { sql } }: TestServer): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`SET LOCAL statement_timeout = 0`;
    await tx`INSERT INTO users (id, username, email, login_type, hashed_password)
      SELECT gen_random_uuid(), 'person-' || n, 'person-' || n || '@example.com', 'password', '' FROM generate_series(1, ${PEOPLE}) n`;
    await tx`CREATE TEMPORARY TABLE people AS SELECT row_number() OVER () - 1 AS place, id FROM users WHERE username LIKE 'person-%'`;
    await tx`INSERT INTO audit_logs (time, user_id, organization_id, resource_type, resource_id, resource_target, action,
        status_code, ip, user_agent, request_id, additional_fields, diff)
      SELECT now() - (${ENTRIES} - n) * interval '94 seconds', p.id, o.id,
        CASE WHEN n % 100 < 70 THEN 'workspace_build' WHEN n % 100 < 85 THEN 'workspace' WHEN n % 100 < 97 THEN 'api_key' ELSE 'template' END,
        gen_random_uuid(), 'workspace-' || n % 10000,
        CASE WHEN n % 100 < 35 THEN 'start' WHEN n % 100 < 70 THEN 'stop' WHEN n % 100 < 97 THEN 'write' ELSE 'delete' END,
        200, '10.0.0.1', 'coder', gen_random_uuid()::text,
        CASE WHEN n % 100 < 70 THEN jsonb_build_object('build_reason', CASE WHEN n % 3 = 0 THEN 'autostop' ELSE 'initiator' END) ELSE '{}' END,
        '{"ttl": {"old": 0, "new": 3600000000000, "secret": false}}'
      FROM generate_series(1, ${ENTRIES}) AS s (n) JOIN people p ON p.place = (n::bigint * n) % ${PEOPLE}, organizations o WHERE o.is_default`;
  });
  await sql`VACUUM ANALYZE audit_logs`;
  await sql`ANALYZE users`;
}

const QUERIES = [
  '',
  'resource_type:workspace_build action:stop',
  'username:person-25',
  'username:person-25 resource_type:template',
  'action:delete',
  'resource_target:workspace-77',
  'build_reason:autostop',
  'organization:coder resource_type:template action:delete',
  'date_from:2024-01-01 date_to:2024-06-30 resource_type:api_key',
];

export async function benchAudit(): Promise<Row[]> {
  const server = await startTestServer();
  try {
    await fill(server);
    const rows: Row[] = [];
    for (const q of QUERIES) {
      const took: number[] = [];
      for (let i = 0; i < WARM_UP + SAMPLES; i++) {
        const started = performance.now();
        const { status } = await server.api<AuditLogResponse>('GET', `/audit?limit=25&q=${encodeURIComponent(q)}`);
        if (status !== 200) throw new Error(`${q}: ${status}`);
        if (i >= WARM_UP) took.push(performance.now() - started);
      }
      const p95 = percentile(took, 0.95);
      rows.push({
        what: `GET /audit?limit=25 of 1,000,000 entries, "${q}", p95`,
        ours: `${p95.toFixed(1)} ms`,
        floor: '',
        figure: `${p95.toFixed(1)} ms`,
        reach: `≤ ${REACH_MS} ms`,
        met: p95 <= REACH_MS,
      });
    }
    const config = { ...server.services.config, auditLogsRetention: 86_400_000 };
    rows.push(
      await besidePurge(server, 'old entries', (signal) => purgeRecords({ ...server.services, config }, signal)),
    );
    return rows;
  } finally {
    await server.stop();
  }
}
