import { packZip, unpackUpload } from '../file/archive.ts';
import { evaluateTags } from '../job/tag-values.ts';
import { judgeValues } from '../workspace-build/parameter-values.ts';

/** What worker threads do: each from plain data to plain data, without the database. */
export const tasks = {
  /** The values that a build runs with, or what is wrong with them. */
  judgeValues,
  /** What a template's `coder_workspace_tags` say. */
  evaluateTags,
  /** An upload as it is stored. */
  unpackUpload,
  /** A stored archive as a zip. */
  packZip,
};
