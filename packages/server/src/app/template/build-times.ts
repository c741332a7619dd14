import type { Db } from '../../db/connect.ts';
import { type BuildTimes, buildTimes } from '../../db/queries/templates.ts';

/** How long build times are kept, in ms. Quantiles of a month change slowly, and computing them reads all builds. */
const KEPT_MS = 60_000;
const MAX_KEPT = 10_000;

/** By template, whose ids are unique among all deployments. */
const kept = new Map<string, { until: number; times: BuildTimes[] }>();

/** How long the builds of these templates took. At most a minute old. */
export async function recentBuildTimes(db: Db, templateIds: string[]): Promise<BuildTimes[]> {
  const now = performance.now();
  const missing = templateIds.filter((id) => (kept.get(id)?.until ?? 0) <= now);
  if (missing.length > 0) {
    const read = Map.groupBy(await buildTimes(db, missing), ({ template_id }) => template_id);
    if (kept.size + missing.length > MAX_KEPT) kept.clear();
    for (const id of missing) kept.set(id, { until: now + KEPT_MS, times: read.get(id) ?? [] });
  }
  return templateIds.flatMap((id) => kept.get(id)?.times ?? []);
}
