import { AppError } from '@ropewalk/kit';
import { BoundError, boundsCheck, type MessageBounds } from '@ropewalk/wire/bounds';
import { type CompletedJob, CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';

const KIB = 1024;
const MIB = 1024 * KIB;

/** Parameters, or presets, of a template version. */
export const MAX_PARAMETERS = 1_000;

/** The bounds of the results of a job. Lists read the rows that store them. */
const JOB_BOUNDS: MessageBounds = {
  text: 8 * KIB,
  items: 10_000,
  bytes: 64 * MIB,
  texts: {
    'RichParameter.default_value': 128 * KIB,
    'RichParameterOption.value': 128 * KIB,
    'PresetParameter.value': 128 * KIB,
    'TemplateVariable.default_value': 128 * KIB,
    'Agent.env': 128 * KIB,
    'Env.value': 128 * KIB,
    'Script.script': 4 * MIB,
    'Metadata.script': 64 * KIB,
    'Metadata.value': 64 * KIB,
    'App.command': 64 * KIB,
  },
  lists: {
    'WorkspaceBuild.timings': 100_000,
    // as many as a request can set. Each form and each build evaluates all of them
    'TemplateImport.rich_parameters': MAX_PARAMETERS,
    'TemplateImport.presets': MAX_PARAMETERS,
  },
  // that of the columns
  numbers: { least: -2_147_483_648, most: 2_147_483_647 },
  // times outside of any calendar are left out
  elsewhere: ['google.protobuf.Timestamp'],
};

const check = boundsCheck(CompletedJobSchema, JOB_BOUNDS);

/** @throws AppError `invalid` that names the part that exceeds its bound */
export function checkJobBounds(done: CompletedJob): void {
  try {
    check(done);
  } catch (err) {
    if (!(err instanceof BoundError)) throw err;
    throw new AppError('invalid', `The results of the job cannot be stored: ${err.message}.`);
  }
}
