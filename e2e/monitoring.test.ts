import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestServer, type TestServer } from '@ropewalk/testkit';

// The alert rules and the dashboard in deploy/monitoring, checked by Prometheus's own tool.

const FOLDER = join(import.meta.dirname, '../deploy/monitoring');
const skip = spawnSync('promtool', ['--version']).status !== 0 && 'needs promtool (of the package prometheus)';

interface Panel {
  id: number;
  title: string;
  type: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { expr: string }[];
}
const dashboard = JSON.parse(readFileSync(join(FOLDER, 'dashboard.json'), 'utf8')) as { panels: Panel[] };
const expressions = dashboard.panels.flatMap(({ targets = [] }) =>
  // Grafana's own variables
  targets.map(({ expr }) => expr.replaceAll('$__rate_interval', '5m').replaceAll('$job', '.+')),
);

let server: TestServer;
let scratch: string;
before(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'platform-monitoring-'));
  server = await startTestServer({
    env: {
      CODER_PROMETHEUS_ENABLE: 'true',
      CODER_PROMETHEUS_ADDRESS: '127.0.0.1:0',
      CODER_PROMETHEUS_COLLECT_AGENT_STATS: 'true',
      CODER_PROMETHEUS_COLLECT_DB_METRICS: 'true',
    },
  });
});
after(async () => {
  rmSync(scratch, { recursive: true, force: true });
  await server.stop();
});

function promtool(args: string[], input?: string): void {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: FOLDER, encoding: 'utf8', input });
  assert.equal(status, 0, stdout + stderr);
}

test('the alert rules are valid, stay quiet for a healthy server and fire for one in trouble', { skip }, () => {
  promtool(['check', 'rules', '--lint-fatal', 'alerts.yml']);
  promtool(['test', 'rules', 'alerts.test.yml']);
});

test('the expressions of the dashboard are valid, and its panels do not overlap', { skip }, () => {
  const rules = expressions.map((expr, index) => ({ record: `panel:${index}`, expr }));
  const file = join(scratch, 'rules.json');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
  promtool(['check', 'rules', file]);
  assert.ok(expressions.length > 20);
  const taken = new Set<string>();
  for (const { gridPos, title } of dashboard.panels) {
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        assert.ok(x < 24 && !taken.has(`${x},${y}`), title);
        taken.add(`${x},${y}`);
      }
    }
  }
});

test('a server has every metric that the rules and the dashboard name, in a form that Prometheus reads', {
  skip,
}, async () => {
  const text = await (await fetch(`${server.metricsUrl}/metrics`)).text();
  // checks the syntax; it fails also for advice on names, which are upstream's
  const { stderr } = spawnSync('promtool', ['check', 'metrics'], { encoding: 'utf8', input: text });
  assert.doesNotMatch(stderr, /error while linting|parse/);
  const known = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!));
  const named = [readFileSync(join(FOLDER, 'alerts.yml'), 'utf8'), ...expressions].flatMap(
    (from) => from.match(/\b(?:coderd|nodejs|process)_[a-z0-9_]+/g) ?? [],
  );
  const missing = named.filter((name) => !known.has(name) && !known.has(name.replace(/_(?:bucket|sum|count)$/, '')));
  assert.deepEqual(missing, []);
});
