import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { eventually } from '@ropewalk/testkit/wait';
import { WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { type Harness, harness, tarOf } from '../testing/harness.ts';
import { type Checkpoint, Checkpoints } from './checkpoint.ts';
import { newestState, readStateFile, wholeState } from './state-file.ts';

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'st-'));
});
after(() => rm(dir, { recursive: true, force: true }));
let h: Harness;
beforeEach(async () => {
  h = await harness();
});
afterEach(() => h.close());

const state = (serial: number, lineage = 'line') =>
  Buffer.from(
    JSON.stringify({
      version: 4,
      serial,
      lineage,
      resources: Array.from({ length: serial }, (_, i) => ({
        mode: 'managed',
        type: 't',
        name: `r${i}`,
        instances: [{ attributes: { input: 'x'.repeat(i % 50) } }],
      })),
    }),
  );

let seed = 7;
const random = (below: number) => {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
  return Math.floor((seed / 2 ** 31) * below);
};

/** Writes a file as Terraform does: truncates it, then writes pieces, with pauses in which a reader can read. */
async function rewrite(path: string, bytes: Buffer, upTo = bytes.length): Promise<void> {
  const file = openSync(path, 'a+');
  try {
    ftruncateSync(file, 0);
    await turn();
    for (let at = 0; at < upTo; ) {
      const length = Math.min(1 + random(bytes.length), upTo - at);
      writeSync(file, bytes, at, length);
      at += length;
      await turn();
    }
  } finally {
    closeSync(file);
  }
}

test('fuzz: delivers only complete states of a file that is truncated and rewritten, and never an older one', async () => {
  const path = join(dir, 'terraform.tfstate');
  const delivered: Checkpoint[] = [];
  let creating: string[] = [];
  const checkpoints = new Checkpoints({
    statePath: path,
    inFlight: () => creating,
    deliver: async (checkpoint) => {
      delivered.push(checkpoint);
      await turn();
    },
  });
  try {
    for (let serial = 1; serial <= 300; serial++) {
      creating = [`t.r${serial}`];
      // some writes never finish, and some start a new lineage
      if (random(4) === 0) await rewrite(path, state(serial), random(state(serial).length));
      // the lineage that is read first counts, and a busy machine reads late
      const hasLineage = delivered.some((one) => one.state.length > 0);
      if (random(10) === 0 && hasLineage) await rewrite(path, state(1, 'another'));
      if (random(10) === 0) await rewrite(path, state(Math.max(1, serial - 2)));
      await rewrite(path, state(serial));
      if (serial % 10 === 0) await eventually('a checkpoint', () => delivered.at(-1)?.serial === BigInt(serial));
    }
  } finally {
    await checkpoints.close();
  }
  let last = 0n;
  for (const { state: bytes, serial, lineage } of delivered) {
    if (bytes.length === 0) {
      assert.equal(last, 0n, 'after the first state, every checkpoint has one');
      continue;
    }
    const whole = wholeState(bytes);
    assert.ok(whole && whole.serial === serial && whole.lineage === lineage);
    // the lineage of a run is the one that was read first
    assert.equal(lineage, delivered.find((one) => one.state.length > 0)?.lineage);
    assert.ok(serial >= last, `${serial} after ${last}`);
    last = serial;
  }
  assert.equal(last, 300n);
  assert.equal(Buffer.compare(checkpoints.newest!.bytes, state(300)), 0);
});

test('a file that is cut anywhere is incomplete, and newestState finds the newest complete state', async () => {
  const given = wholeState(state(3));
  const read = wholeState(state(5));
  const path = join(dir, 'terraform.tfstate');
  const errored = join(dir, 'errored.tfstate');
  const newest = (known: Parameters<typeof newestState>[1]) => newestState(dir, known)?.serial;
  const bytes = state(6);
  for (let round = 0; round < 200; round++) {
    await writeFile(path, bytes.subarray(0, random(bytes.length)));
    await writeFile(errored, bytes.subarray(0, random(bytes.length)));
    assert.equal(readStateFile(path), 'incomplete');
    assert.equal(newest({ given }), undefined, 'the server keeps its state');
    assert.equal(newest({ given, read }), 5n);
  }
  await writeFile(errored, state(7));
  assert.equal(newest({ given, read }), 7n, 'the file for states that Terraform could not save normally');
  await writeFile(path, state(8));
  assert.equal(newest({ given, read }), 8n, 'an older error file does not win');
  await writeFile(errored, state(9, 'another'));
  assert.equal(newest({ given }), 8n, 'nor does one of another lineage');
  assert.equal(newest({}), 8n);
  await writeFile(path, state(2));
  await rm(errored);
  assert.equal(newest({ given }), undefined, 'older than the state that the run began with');
  await rm(path);
  assert.equal(readStateFile(path), 'missing');
});

/** A terraform whose apply leaves only the first half of its state file, as on a full disk. */
async function cutting(exit: number): Promise<string> {
  const path = join(h.dir, 'terraform');
  const script = `#!/bin/sh
[ "$1" = apply ] || exec terraform "$@"
terraform "$@"
sleep 0.6
head -c 200 terraform.tfstate > half
cat half > terraform.tfstate
exit ${exit}
`;
  await writeFile(path, script, { mode: 0o755 });
  return path;
}

for (const exit of [0, 1]) {
  test(`an apply that ends with ${exit} and half a state file fails with the last complete state`, async () => {
    h.start({ terraformBinaries: [await cutting(exit)] });
    const id = h.server.post({
      templateSourceArchive: await tarOf({
        'main.tf': 'resource "terraform_data" "first" {}',
        // states of another workspace
        'terraform.tfstate': state(70, 'planted'),
        'errored.tfstate': state(80, 'planted'),
      }),
      type: {
        case: 'workspaceBuild',
        value: { metadata: { workspaceTransition: WorkspaceTransition.START, workspaceName: 'dev' } },
      },
    });
    const { failed } = await h.server.verdict(id);
    assert.match(failed?.error ?? '', exit === 0 ? /state file is incomplete/ : /exit status 1/);
    assert.ok(failed?.type.case === 'workspaceBuild');
    const kept = wholeState(failed.type.value.state);
    assert.ok(kept && kept.managed === 1 && kept.lineage !== 'planted');
    for (const { state: bytes } of h.server.checkpoints) assert.ok(bytes.length === 0 || wholeState(bytes));
  });
}
