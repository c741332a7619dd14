import { packZip, unpackUpload } from '../evaluate/archive.ts';
import { judgeValues } from '../evaluate/parameter-values.ts';
import { previewParameters } from '../evaluate/preview.ts';
import { resolveValues } from '../evaluate/resolve.ts';
import { evaluateTags } from '../evaluate/tags.ts';

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
