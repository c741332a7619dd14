import type { Tx } from '../../db/connect.ts';
import { type BuildRow, type BuiltWorkspace, latestBuild } from '../../db/queries/builds.ts';
import { claimPrebuild, pooledPresets } from '../../db/queries/prebuilds.ts';
import type { CreatableWorkspace } from '../../db/queries/workspaces.ts';
import type { NameValue } from '../workspace-build/parameters.ts';
import type { PreparedBuild } from '../workspace-build/prepare.ts';

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

/**
 * Takes a ready workspace from the pool of a preset that fits a build, for its owner. Undefined if there is none. Part of
 * the transaction that begins the build.
 */
export async function claimReady(
  tx: Tx,
  creatable: CreatableWorkspace,
  { version, presetId, parameters }: PreparedBuild,
  workspace: Parameters<typeof claimPrebuild>[3],
): Promise<Claimed | undefined> {
  const pooled = (await pooledPresets(tx, version.id)).filter(({ id }) => presetId === undefined || id === presetId);
  for (const { id } of presetsThatFit(pooled, parameters)) {
    const made = await claimPrebuild(tx, creatable, { presetId: id, versionId: version.id }, workspace);
    if (made) return { made, presetId: id, last: (await latestBuild(tx, made.id))! };
  }
  return undefined;
}
