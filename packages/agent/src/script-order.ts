import type { WorkspaceAgentScript } from '@ropewalk/wire/proto/agent';
import { uuidText } from '@ropewalk/wire/uuid';

/** How a script of a stage ended. `skipped`: it did not start. */
export type Outcome = 'ok' | 'failed' | 'timed_out' | 'skipped';

interface Steps {
  run(script: WorkspaceAgentScript): Promise<Outcome>;
  /** Called instead of `run` because `failed` did not succeed. */
  skip(script: WorkspaceAgentScript, failed: WorkspaceAgentScript): void;
}

/**
 * Runs the scripts of a stage together, each as soon as those that it waits for have ended (coder_script_order). One that
 * needs the success of a script that did not succeed is skipped. Scripts of other stages are not waited for, and a wait
 * that would close a circle is ignored, so every script ends. Returns the outcomes in the order of the scripts.
 */
export function runInOrder(scripts: readonly WorkspaceAgentScript[], { run, skip }: Steps): Promise<Outcome[]> {
  const byId = new Map(scripts.map((script) => [uuidText(script.id), script]));
  const ends = new Map<WorkspaceAgentScript, Promise<Outcome>>();
  const endOf = (script: WorkspaceAgentScript, dependants: ReadonlySet<WorkspaceAgentScript>): Promise<Outcome> => {
    const known = ends.get(script);
    if (known) return known;
    const path = new Set(dependants).add(script);
    const waits = script.waitsFor.flatMap(({ scriptId, anyOutcome }) => {
      const other = byId.get(uuidText(scriptId));
      return other && !path.has(other) ? [{ other, anyOutcome, end: endOf(other, path) }] : [];
    });
    const start = async (): Promise<Outcome> => {
      const ended = await Promise.all(waits.map(async ({ end, ...wait }) => ({ ...wait, outcome: await end })));
      const failed = ended.find(({ anyOutcome, outcome }) => !anyOutcome && outcome !== 'ok');
      if (!failed) return run(script);
      skip(script, failed.other);
      return 'skipped';
    };
    const end = waits.length === 0 ? run(script) : start();
    ends.set(script, end);
    return end;
  };
  return Promise.all(scripts.map((script) => endOf(script, new Set())));
}
