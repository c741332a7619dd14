// `npm run bench [name]`: measures each figure together with its floor in the same run. Prints a table. Exits with status 1 if a
// figure is missed. `npm run bench scale -- --help` prints the options of the one that has any. Without names it does not run,
// because it takes hours.
import { type Row, table } from './measure.ts';

/** The bench with options. */
const SCALE = 'scale';

const benches: Record<string, (args: readonly string[]) => Promise<Row[]>> = {
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
  [SCALE]: async (args) => (await import('./scale/scale.ts')).benchScale(args),
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

const given = process.argv.slice(2);
const end = given.findIndex((arg) => arg.startsWith('-'));
const wanted = end < 0 ? given : given.slice(0, end);
const options = given.slice(wanted.length);
if (options.length > 0 && (wanted.length !== 1 || wanted[0] !== SCALE)) {
  console.error(`Only the bench ${SCALE} has options: npm run bench ${SCALE} -- ${options.join(' ')}`);
  process.exit(1);
}
const unknown = wanted.filter((name) => !(name in benches));
if (unknown.length > 0) {
  console.error(`Unknown bench: ${unknown.join(', ')}. Use ${Object.keys(benches).join(', ')}.`);
  process.exit(1);
}
const rows: Row[] = [];
for (const [name, bench] of Object.entries(benches)) {
  if (wanted.length > 0 ? !wanted.includes(name) : name === SCALE) continue;
  console.error(`measuring ${name} …`);
  rows.push(...(await bench(options)));
}
if (rows.length > 0) console.log(table(rows));
process.exit(rows.every((row) => row.met) ? 0 : 1);
