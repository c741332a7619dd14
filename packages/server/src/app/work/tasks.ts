import { previewParameters } from '../dynamic-parameters/preview.ts';
import { resolveValues } from '../dynamic-parameters/resolve.ts';
import { packZip, unpackUpload } from '../file/archive.ts';
import { evaluateTags } from '../job/tag-values.ts';
import { judgeValues } from '../workspace-build/parameter-values.ts';

/** The tasks of worker threads. Each turns plain data into plain data, without the database. */
export const tasks = {
  /** The values that a build uses, or the errors in them. */
  judgeValues,
  /** A version's parameters with the values typed so far. */
  previewParameters,
  /** The values that a build uses, of a template with dynamic parameters. */
  resolveValues,
  /** The tags of a template's `coder_workspace_tags`. */
  evaluateTags,
  /** Converts an upload to its stored form. */
  unpackUpload,
  /** Converts a stored archive to a zip. */
  packZip,
};
