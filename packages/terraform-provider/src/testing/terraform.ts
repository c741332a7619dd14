import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { silentLogger } from '@ropewalk/kit';
import { initScripts } from '@ropewalk/rules/init-scripts';
import { startProvider } from '../server.ts';

const REQUIRED = 'terraform {\n  required_providers {\n    coder = {\n      source = "coder/coder"\n    }\n  }\n}\n';

export interface TerraformDiagnostic {
  severity: string;
  summary: string;
  detail: string;
  address?: string;
  /** The attribute that Terraform points at, as in the source. */
  code: string;
}

export interface Run {
  ok: boolean;
  output: string;
  diagnostics: TerraformDiagnostic[];
  /** How many resources the plan adds, changes and removes. Empty if the command made no plan. */
  planned: number[];
}

export interface StateResource {
  mode: string;
  type: string;
  name: string;
  values: Record<string, unknown>;
}

/**
 * Upstream's provider, built from its Go module: a directory with the executable `terraform-provider-coder` and its
 * sources in `source/`. Undefined if UPSTREAM_PROVIDER is not set. `.ci/run` builds it.
 */
export const upstreamProvider = process.env['UPSTREAM_PROVIDER'];

interface DirOptions {
  /** Whether to put a `required_providers` block before the source. Default: true. */
  declare?: boolean;
  /** A directory with the provider's executable. Default: this project's provider, in this process. */
  executableDir?: string | undefined;
}

/** Creates a temporary directory with a template, a provider, and the real Terraform. */
export async function terraformDir(source: string, { declare = true, executableDir }: DirOptions = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'tfp-'));
  await writeFile(join(dir, 'main.tf'), (declare ? REQUIRED : '') + source);
  await writeFile(join(dir, 'cli.tfrc'), '');
  let serial = 0;

  /** Runs one command with its own provider, which gets these variables as its environment. */
  async function terraform(args: string[], env: Record<string, string> = {}): Promise<Run> {
    const scripts = Object.entries(initScripts()).map(([k, v]) => [`CODER_AGENT_SCRIPT_${k}`, v]);
    const providerEnv = { CODER_AGENT_URL: 'https://coder.example:8443/sub/', ...Object.fromEntries(scripts), ...env };
    const provider =
      executableDir === undefined
        ? await startProvider({ socketPath: join(dir, `p${serial++}.sock`), env: providerEnv, log: silentLogger })
        : await startExecutable(executableDir, { PATH: process.env['PATH'] ?? '', TMPDIR: dir, ...providerEnv });
    try {
      return await new Promise<Run>((resolve) => {
        const child = {
          PATH: process.env['PATH'],
          HOME: dir,
          CHECKPOINT_DISABLE: '1',
          TF_IN_AUTOMATION: '1',
          TF_CLI_CONFIG_FILE: join(dir, 'cli.tfrc'),
          TF_REATTACH_PROVIDERS: provider.reattach,
        };
        execFile('terraform', args, { cwd: dir, env: child, maxBuffer: 1 << 26, timeout: 30_000 }, (err, out, errOut) =>
          resolve({ ok: err === null, output: out + errOut, diagnostics: diagnosticsOf(out), planned: plannedIn(out) }),
        );
      });
    } finally {
      await provider.close();
    }
  }

  async function state(): Promise<StateResource[]> {
    const shown = await terraform(['show', '-json']);
    const root = JSON.parse(shown.output) as { values?: { root_module?: { resources?: StateResource[] } } };
    return root.values?.root_module?.resources ?? [];
  }

  return {
    dir,
    terraform,
    apply: (env?: Record<string, string>) => terraform(['apply', '-json', '-auto-approve'], env),
    plan: (env?: Record<string, string>) => terraform(['plan', '-json'], env),
    state,
    /** Returns the values of one resource or data source in the state. */
    async values(type: string, name: string): Promise<Record<string, unknown>> {
      const found = (await state()).find((r) => r.type === type && r.name === name);
      if (!found) throw new Error(`${type}.${name} is not in the state`);
      return found.values;
    },
    remove: () => rm(dir, { recursive: true, force: true }),
  };
}

/** What Terraform sends a provider that it starts itself. */
const HANDSHAKE = {
  TF_PLUGIN_MAGIC_COOKIE: 'd602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2',
  PLUGIN_PROTOCOL_VERSIONS: '5',
};

/**
 * Starts a provider's executable, to which Terraform then attaches. Terraform would start it four times for one
 * `apply`, which takes twice the processor time.
 */
async function startExecutable(dir: string, env: Record<string, string>) {
  const child = spawn(join(dir, 'terraform-provider-coder'), {
    env: { ...env, ...HANDSHAKE },
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  const ended = once(child, 'exit');
  const [line] = await Promise.race([
    once(createInterface(child.stdout), 'line') as Promise<[string]>,
    ended.then(([code, signal]) => {
      throw new Error(`The provider in ${dir} ended with ${signal ?? code} before it was ready.`);
    }),
  ]);
  // version of the handshake, version of the protocol, network, address, protocol
  const [, version, network, address] = line.split('|');
  return {
    reattach: JSON.stringify({
      'coder/coder': {
        Protocol: 'grpc',
        ProtocolVersion: Number(version),
        Pid: child.pid,
        Test: true,
        Addr: { Network: network, String: address },
      },
    }),
    async close() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

function diagnosticsOf(output: string): TerraformDiagnostic[] {
  const out: TerraformDiagnostic[] = [];
  for (const line of output.split('\n')) {
    if (!line.startsWith('{')) continue;
    const { diagnostic } = JSON.parse(line) as {
      diagnostic?: TerraformDiagnostic & { snippet?: { code?: string } };
    };
    if (diagnostic) out.push({ ...diagnostic, code: diagnostic.snippet?.code?.trim() ?? '' });
  }
  return out;
}

function plannedIn(output: string): number[] {
  for (const line of output.split('\n')) {
    if (!line.startsWith('{')) continue;
    const { changes } = JSON.parse(line) as {
      changes?: { operation: string; add: number; change: number; remove: number };
    };
    if (changes?.operation === 'plan') return [changes.add, changes.change, changes.remove];
  }
  return [];
}
