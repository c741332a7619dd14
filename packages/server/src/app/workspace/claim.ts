import type { Tx } from '../../db/connect.ts';
import { latestBuild } from '../../db/queries/builds.ts';
import { claimPrebuild, type pooledPresets } from '../../db/queries/prebuilds.ts';
import type { CreatableWorkspace } from '../../db/queries/workspaces.ts';
import type { BuildRow, BuiltWorkspace } from '../../db/rows.ts';
import type { NameValue } from '../evaluate/parameter-values.ts';
import type { PreparedBuild } from './build/prepare.ts';

export interface Claimed {
  made: BuiltWorkspace;
  presetId: string;
  last: BuildRow;
}

/**
 * The presets whose values are all among those of a build, the most specific first. A person who chooses the values of a
 * preset by hand gets its prebuilt workspace, too.
 */
export function presetsThatFit<P extends { parameters: Readonly<Record<string, string>> }>(
  presets: readonly P[],
  values: readonly NameValue[],
): P[] {
  const value = new Map(values.map((one) => [one.name, one.value]));
  const size = ({ parameters }: P) => Object.keys(parameters).length;
  return presets
    .filter(({ parameters }) => Object.entries(parameters).every(([name, wanted]) => value.get(name) === wanted))
    .toSorted((a, b) => size(b) - size(a));
}

/** A preset that has a pool. */
type Pooled = Awaited<ReturnType<typeof pooledPresets>>[number];

/**
 * Takes a ready workspace from the pool of a preset that fits a build, for its owner. Undefined if there is none. Part of
 * the transaction that begins the build. `pooled`: the presets of the version that have pools.
 */
export async function claimReady(
  tx: Tx,
  creatable: CreatableWorkspace,
  { version, presetId, parameters }: PreparedBuild,
  pooled: readonly Pooled[],
  workspace: Parameters<typeof claimPrebuild>[3],
): Promise<Claimed | undefined> {
  const allowed = pooled.filter(({ id }) => presetId === undefined || id === presetId);
  for (const { id } of presetsThatFit(allowed, parameters)) {
    const made = await claimPrebuild(tx, creatable, { presetId: id, versionId: version.id }, workspace);
    if (made) return { made, presetId: id, last: (await latestBuild(tx, made.id))! };
  }
  return undefined;
}
