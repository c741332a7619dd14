import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  coder,
  eventually,
  makeTemplate,
  PROGRAM,
  type ServerProcess,
  startProgram,
  startSignedInServer,
} from './harness.ts';
import { localExample } from './local.ts';

// Commands that show logs while the server restarts.

const [BUILD_LINES, AGENT_LINES] = [60, 120];

/** Writes `<name> line 1`, `<name> line 2`, …, ten a second. */
const count = (name: string, to: number) => `for i in $(seq ${to}); do echo "${name} line $i"; sleep 0.1; done`;

/** The local example with a build and a start script that count. The agent starts after the build has counted. */
function countingTemplate(): Record<string, string> {
  const { 'main.tf': main = '' } = localExample();
  return {
    'main.tf': `${main
      .replace(/startup_script = .*/, `startup_script = ${JSON.stringify(count('agent', AGENT_LINES))}`)
      .replace('startup_script =', 'startup_script_behavior = "blocking"\n  startup_script =')
      .replace('triggers_replace = coder_agent.main.id', '$&\n  depends_on = [terraform_data.slow]')}
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = ${JSON.stringify(count('build', BUILD_LINES))}
  }
}
`,
  };
}

let server: ServerProcess;
before(async () => {
  server = await startSignedInServer();
  await makeTemplate(server, 'counting', countingTemplate());
});
after(() => server?.stop());

/** The numbers of the lines `<name> line <number>` in an output. */
const numbersOf = (name: string, output: string) =>
  [...output.matchAll(new RegExp(`${name} line (\\d+)$`, 'gm'))].map(([, number]) => Number(number));

const upTo = (last: number) => Array.from({ length: last }, (_, n) => n + 1);

test('shows each line of a build and of its agent once while the server restarts, and ends', async (t) => {
  const start = (...args: string[]) => {
    const program = startProgram(PROGRAM, args, { env: server.env });
    t.after(() => program.child.kill());
    return program;
  };
  const creating = start('create', 'dev', '--template', 'counting', '-y');
  await eventually('the build counts', () => numbersOf('build', creating.out()).length > 0);
  const following = start('logs', 'dev', '--follow');
  await eventually('both count', () =>
    [creating, following].every((each) => numbersOf('build', each.out()).length > 10),
  );
  await server.kill();
  const seen = numbersOf('build', following.out()).length;
  assert.ok(seen < BUILD_LINES, `${seen}`);
  await server.restart();
  const agentLines = () => [following.out(), creating.err()].map((shown) => numbersOf('agent', shown));
  await eventually('the agent counts', () => agentLines().every((lines) => lines.length > 10));
  assert.equal(await server.terminate(), 0);
  assert.ok(
    agentLines().every((lines) => lines.length < AGENT_LINES),
    creating.err(),
  );
  await server.restart();
  assert.equal(await creating.ended, 0, creating.err() + creating.out());
  assert.deepEqual(numbersOf('build', creating.out()), upTo(BUILD_LINES));
  assert.deepEqual(numbersOf('agent', creating.err()), upTo(AGENT_LINES));
  await eventually('the agent has counted', () => following.out().includes(`agent line ${AGENT_LINES}\n`));

  const stopped = await coder(['stop', 'dev', '-y'], { env: server.env });
  assert.equal(stopped.code, 0, stopped.stderr);
  assert.equal(await following.ended, 0, following.err());
  assert.deepEqual(numbersOf('build', following.out()), upTo(BUILD_LINES));
  assert.deepEqual(numbersOf('agent', following.out()), upTo(AGENT_LINES));
});
