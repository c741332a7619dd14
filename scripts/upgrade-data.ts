// `node scripts/upgrade-data.ts RELEASE CONFIG_DIR DATABASE_URL` writes e2e/upgrade/RELEASE.json, the data of a release for
// the upgrade test. docs/recipes/add-a-release.md says how to make that data.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from '../packages/server/src/db/connect.ts';
import { directoryHash } from '../packages/server/src/postgres/place.ts';

/** Logs, private keys, and what belongs to one installation or session. */
const LEFT_OUT = [
  'api_keys',
  'audit_logs',
  'git_ssh_keys',
  'oauth2_provider_app_codes',
  'oauth2_provider_app_secrets',
  'oauth2_provider_app_tokens',
  'oauth2_provider_apps',
  'provisioner_job_logs',
  'provisioner_job_timings',
  'schema_migrations',
  'site_config',
  'user_secrets',
  'workspace_agent_logs',
  'workspace_agent_metadata',
  'workspace_agent_script_timings',
  'workspace_proxies',
  'workspace_proxy_replicas',
];

const [release, configDir, url] = process.argv.slice(2);
if (!release || !configDir || !url)
  throw new Error('Usage: node scripts/upgrade-data.ts RELEASE CONFIG_DIR DATABASE_URL');
const sql = connect(url, { max: 1 });
const [at] = await sql<{ schema: number }[]>`SELECT max(version) AS schema FROM schema_migrations`;
const names = await sql<{ name: string }[]>`
  SELECT table_name AS name FROM information_schema.tables
  WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`;
const tables: Record<string, object[]> = {};
for (const { name } of names.filter((table) => !LEFT_OUT.includes(table.name))) {
  const [row] = await sql.unsafe<{ rows: string | null }[]>(`SELECT json_agg(t)::text AS rows FROM ${name} t`);
  if (row!.rows !== null) tables[name] = JSON.parse(row!.rows) as object[];
}
await sql.end();
const place = directoryHash(configDir);
const [uid] = readdirSync(join('/var/lib/coder/provisioners', place, 'uids'));
const { first } = JSON.parse(readFileSync(join(configDir, 'uids.json'), 'utf8')) as { first: number };
const homes = { homes: 'own uids', uid: Number(uid), firstUid: first };
const data = { release, schema: at!.schema, place, ...homes, tables };
writeFileSync(join(import.meta.dirname, '../e2e/upgrade', `${release}.json`), `${JSON.stringify(data, null, 2)}\n`);
