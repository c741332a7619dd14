// The time from a message of a parameter form to its answer: a template with 30 parameters and 3 modules, whose options
// and defaults depend on each other. Then the same while another person evaluates a template made to take long.
import type { DynamicParametersResponse, Template } from '@ropewalk/contract';
import {
  finishImport,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
  tarOf,
} from '@ropewalk/testkit';
import { dialWebSocket, type WebSocketConnection } from '@ropewalk/wire/websocket';
import type { Row } from './measure.ts';

const WARM_UP = 100;
const SAMPLES = 1_000;
const REACH_P50_MS = 5;
const REACH_P99_MS = 30;
/** The reach for others during evaluations that use up their budget: those have their own threads. */
const REACH_REQUEST_P99_MS = 30;
const HOSTILE_FORMS = 3;

const MODULE = `
variable "name" { type = string }
variable "size" { type = string }
locals {
  choices = { for n in range(10) : "\${var.name}-\${n}" => n * (var.size == "large" ? 2 : 1) }
}
${Array.from(
  { length: 6 },
  (_, i) => `data "coder_parameter" "p${i}" {
  name    = "\${var.name}_${i}"
  type    = "number"
  mutable = true
  order   = ${i}
  default = values(local.choices)[${i}]
  dynamic "option" {
    for_each = local.choices
    content {
      name  = title(option.key)
      value = option.value
    }
  }
}`,
).join('\n')}
output "total" { value = sum([${Array.from({ length: 6 }, (_, i) => `tonumber(data.coder_parameter.p${i}.value)`).join(', ')}]) }
`;

const MAIN = `
data "coder_workspace_owner" "me" {}
data "coder_parameter" "size" {
  name    = "size"
  default = "small"
  option {
    name  = "Small"
    value = "small"
  }
  option {
    name  = "Large"
    value = "large"
  }
}
${['a', 'b', 'c']
  .map(
    (name) =>
      `module "${name}" {\n  source = "./machine"\n  name   = "${name}"\n  size   = data.coder_parameter.size.value\n}`,
  )
  .join('\n')}
${Array.from(
  { length: 11 },
  (_, i) => `data "coder_parameter" "text${i}" {
  name        = "text${i}"
  description = "For \${data.coder_workspace_owner.me.name}, with \${module.a.total + module.b.total} units"
  default     = join("-", [data.coder_parameter.size.value, "${i}"])
  validation {
    regex = "^[a-z0-9-]+$"
    error = "Use lower case letters, digits and hyphens"
  }
}`,
).join('\n')}
`;

const HOSTILE = `data "coder_parameter" "p" {
  name    = "p"
  default = join("", flatten([for a in range(1000) : [for b in range(1000) : [for c in range(1000) : "x"]]]))
}`;

async function templateOf(server: TestServer, name: string, files: Record<string, string>): Promise<Template> {
  const file = await server.api<{ hash: string }>('POST', '/files', {
    raw: { type: 'application/x-tar', data: await tarOf(files) },
  });
  const version = await pendingVersion(server, { file_id: file.body.hash });
  await finishImport(server, await takeJob(server));
  await server.services.sql`UPDATE template_version_terraform_values SET provisionerd_version = '1.8'
    WHERE template_version_id = ${version.id}`;
  const { body } = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name, template_version_id: version.id, template_use_classic_parameter_flow: false },
  });
  return body;
}

/** A connection that asks one question at a time. */
async function formOf(server: TestServer, versionId: string, token: string) {
  const { connection } = await dialWebSocket(`${server.url}/api/v2/templateversions/${versionId}/dynamic-parameters`, {
    headers: { 'Coder-Session-Token': token },
  });
  const answered = (socket: WebSocketConnection) =>
    new Promise<DynamicParametersResponse>((resolve) => {
      socket.once('text', (text) => resolve(JSON.parse(text) as DynamicParametersResponse));
    });
  await answered(connection);
  let id = 0;
  return {
    async ask(inputs: Record<string, string>): Promise<{ ms: number; answer: DynamicParametersResponse }> {
      const started = performance.now();
      connection.sendText(JSON.stringify({ id: ++id, inputs }));
      const answer = await answered(connection);
      return { ms: performance.now() - started, answer };
    },
    close: () => connection.destroy(),
  };
}

const percentile = (values: number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!;

async function samples(count: number, measure: (i: number) => Promise<number>): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < count; i++) times.push(await measure(i));
  return times;
}

export async function benchParameters(): Promise<Row[]> {
  const server = await startTestServer();
  try {
    const template = await templateOf(server, 'form', { 'main.tf': MAIN, 'machine/main.tf': MODULE });
    const form = await formOf(server, template.active_version_id, server.adminToken);
    const ask = async (i: number) => {
      const { ms, answer } = await form.ask({ size: i % 2 ? 'small' : 'large', text0: `typed-${i}` });
      const { parameters, diagnostics } = answer;
      if (parameters.length !== 30 || diagnostics.length > 0) throw new Error(JSON.stringify(answer).slice(0, 1_000));
      return ms;
    };
    await samples(WARM_UP, ask);
    const times = await samples(SAMPLES, ask);
    form.close();

    const request = async () => {
      const started = performance.now();
      await server.api('GET', '/users/me');
      return performance.now() - started;
    };
    await samples(WARM_UP, request);
    const quiet = await samples(SAMPLES, request);
    const hostile = await templateOf(server, 'hostile', { 'main.tf': HOSTILE });
    let over = false;
    const attacks = Array.from({ length: HOSTILE_FORMS }, async (_, i) => {
      const { token } = await insertPerson(server, `attacker-${i}`);
      const attack = await formOf(server, hostile.active_version_id, token);
      while (!over) await attack.ask({});
      attack.close();
    });
    const busy = await samples(SAMPLES, request);
    over = true;
    await Promise.all(attacks);

    const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
    const [before, during] = [percentile(quiet, 0.99), percentile(busy, 0.99)];
    const ms = (value: number) => `${value.toFixed(1)} ms`;
    return [
      {
        what: 'dynamic parameters: answer to a typed value, 30 parameters, 3 modules',
        ours: `p50 ${ms(p50)}, p99 ${ms(p99)}`,
        floor: '—',
        figure: `${ms(p50)}, ${ms(p99)}`,
        reach: `≤ ${REACH_P50_MS} ms, ≤ ${REACH_P99_MS} ms`,
        met: p50 <= REACH_P50_MS && p99 <= REACH_P99_MS,
      },
      {
        what: `dynamic parameters: p99 of another request while ${HOSTILE_FORMS} people evaluate a hostile template`,
        ours: ms(during),
        floor: `${ms(before)} without them`,
        figure: ms(during),
        reach: `≤ ${REACH_REQUEST_P99_MS} ms`,
        met: during <= REACH_REQUEST_P99_MS,
      },
    ];
  } finally {
    await server.stop();
  }
}
