// `npm run bench [name]`: measures each figure together with its floor in the same run. Prints a table. Exits with status 1 if a
// figure is missed.
import { type Row, table } from './measure.ts';

const benches: Record<string, () => Promise<Row[]>> = {
  apps: async () => (await import('./apps.ts')).benchApps(),
  audit: async () => (await import('./audit.ts')).benchAudit(),
  agents: async () => (await import('./agents.ts')).benchAgents(),
  authorization: async () => (await import('./authorization.ts')).benchAuthorization(),
  builds: async () => (await import('./builds.ts')).benchBuilds(),
  dashboard: async () => (await import('./dashboard.ts')).benchDashboard(),
  lists: async () => (await import('./lists.ts')).benchLists(),
  dispatch: async () => (await import('./dispatch.ts')).benchDispatch(),
  operator: async () => (await import('./operator.ts')).benchOperator(),
  memory: async () => (await import('./memory.ts')).benchMemory(),
  purge: async () => (await import('./purge.ts')).benchPurge(),
  parameters: async () => (await import('./parameters.ts')).benchParameters(),
  prebuilds: async () => (await import('./prebuilds.ts')).benchPrebuilds(),
  requests: async () => (await import('./requests.ts')).benchRequests(),
  servers: async () => (await import('./servers.ts')).benchServers(),
  schedules: async () => (await import('./schedules.ts')).benchSchedules(),
  'sign-in': async () => (await import('./sign-in.ts')).benchSignIn(),
  ssh: async () => (await import('./ssh.ts')).benchSsh(),
  startup: async () => (await import('./startup.ts')).benchStartup(),
  templates: async () => (await import('./templates.ts')).benchTemplates(),
  tunnels: async () => (await import('./tunnels.ts')).benchTunnels(),
  tailnet: async () => (await import('./tailnet.ts')).benchTailnet(),
  wire: async () => (await import('./wire.ts')).benchWire(),
  'wrong-templates': async () => (await import('./wrong-templates.ts')).benchWrongTemplates(),
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in benches));
if (unknown.length > 0) {
  console.error(`Unknown bench: ${unknown.join(', ')}. Use ${Object.keys(benches).join(', ')}.`);
  process.exit(1);
}
const rows: Row[] = [];
for (const [name, bench] of Object.entries(benches)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.error(`measuring ${name} …`);
  rows.push(...(await bench()));
}
console.log(table(rows));
process.exit(rows.every((row) => row.met) ? 0 : 1);
