// Which daemons may run a job, by the version of Terraform that its template requires.

import type { IncomingHttpHeaders } from 'node:http';
import { requiredVersions } from '@ropewalk/hcl';
import { parseVersion } from '@ropewalk/kit/version';
import { allowedVersions, type VersionRange, versionNumber } from '@ropewalk/kit/version-constraint';
import type { Db } from '../../db/connect.ts';
import { type FileTraits, fileData, namesWorkspaceTags, setFileTraits } from '../../db/queries/files.ts';
import type { VersionPlace } from '../../db/queries/template-versions.ts';
import type { JobRow } from '../../db/rows.ts';
import { readTar } from '../evaluate/archive.ts';

/** In this header our daemons report their engines: `terraform 1.11.4, opentofu 1.10.6`. */
const ENGINES_HEADER = 'platform-engines';
const MAX_ENGINES = 16;

/** The engines that a daemon reports when it connects. */
export function enginesOf(headers: IncomingHttpHeaders): { engines: string[]; engine_versions: number[] } {
  const engines = String(headers[ENGINES_HEADER] ?? '')
    .split(',')
    .map((text) => text.trim())
    .filter((text) => /^(terraform|opentofu) \d+\.\d+\.\d+[\w.+-]{0,40}$/.test(text))
    .slice(0, MAX_ENGINES);
  return { engines, engine_versions: numbersOf(engines) };
}

const numbersOf = (engines: readonly string[]): number[] =>
  engines
    .map((text) => versionNumber(parseVersion(text.split(' ')[1]!)!.version))
    .filter((number) => number !== undefined);

/**
 * Looks at the archive of a new version, if no import of it has before, and stores which versions of Terraform it allows.
 * Fetched modules come later. Returns whether the archive may name tags for its workspaces.
 */
export async function lookAtFile(db: Db, place: VersionPlace, fileId: string): Promise<{ namesTags: boolean }> {
  const known = await namesWorkspaceTags(db, fileId);
  if (known !== undefined) return { namesTags: known };
  const archive = await fileData(db, fileId);
  const namesTags = archive !== undefined && mentionsTags(archive);
  const requirement = await requirementOf(archive ? [archive] : []);
  await setFileTraits(db, place, fileId, { ...requirement, namesWorkspaceTags: namesTags });
  return { namesTags };
}

/** Whether the files of a tar mention tags for workspaces. A mention in a comment counts, too. */
export const mentionsTags = (archive: Buffer): boolean => archive.includes('coder_workspace_tags');

export type Requirement = Pick<FileTraits, 'text' | 'range'>;

/**
 * Which versions of Terraform a template allows: its archive, and that of its fetched modules if there are any. `found`:
 * the requirement with which its import succeeded, which can be stricter.
 */
export async function requirementOf(archives: readonly Buffer[], found = ''): Promise<Requirement> {
  const constraints = await constraintsIn(archives);
  const known = new Set(partsOf(constraints.join()));
  constraints.push(...partsOf(found).filter((part) => !known.has(part)));
  const range = constraints.length > 0 ? rangeText(allowedVersions(constraints)) : null;
  return { text: constraints.join(', '), range };
}

async function constraintsIn(archives: readonly Buffer[]): Promise<string[]> {
  // most templates have none, and the import reports an archive that cannot be read
  if (!archives.some((archive) => archive.includes('required_version'))) return [];
  const entries = await Promise.all(archives.map((archive) => readTar(archive, isRead).catch(() => [])));
  return requiredVersions(Object.fromEntries(entries.flat().map(({ path, data }) => [path, data])));
}

const partsOf = (constraints: string): string[] =>
  constraints
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

const isRead = (path: string) => /\.tf(\.json)?$/.test(path) || path === '.terraform/modules/modules.json';

/** As PostgreSQL writes it. */
export const rangeText = (ranges: VersionRange[]): string =>
  `{${ranges.map(([from, below]) => `[${from},${below})`).join(',')}}`;

/**
 * Whether one of these versions is in a range as PostgreSQL writes it. A daemon that does not report its versions may
 * run any job. The SQL function `terraform_matches` has the same rule.
 */
export function rangeHas(range: string | null | undefined, versions: readonly number[]): boolean {
  if (range == null || versions.length === 0) return true;
  const ranges = [...range.matchAll(/\[(\d+),(\d+)\)/g)].map(
    ([, from, below]) => [Number(from), Number(below)] as const,
  );
  return versions.some((version) => ranges.some(([from, below]) => version >= from && version < below));
}

/** Whether a daemon with these engines may run a job. */
export const hasEngine = (job: Pick<JobRow, 'terraform_range'>, engines: readonly string[]): boolean =>
  rangeHas(job.terraform_range, numbersOf(engines));

/** Engines for people: `terraform 1.11.4 and opentofu 1.10.6`. */
export const enginesText = (engines: readonly string[]): string => new Intl.ListFormat('en').format(engines);
