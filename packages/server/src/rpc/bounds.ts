import type { MessageBounds } from '@ropewalk/wire/bounds';

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * The bounds of an agent's reports. Anyone with a workspace's token can send anything, and the stored reports appear in
 * lists of everyone who may read the workspace.
 */
export const AGENT_BOUNDS: MessageBounds = {
  text: 4 * KIB,
  items: 1_000,
  bytes: 4 * KIB,
  texts: {
    // longer lines are cut before they are stored
    'Log.output': MIB,
    'Result.value': 64 * KIB,
    'Result.error': 64 * KIB,
  },
  lists: { 'BatchCreateLogsRequest.logs': 50_000 },
};

/** The bounds of a daemon's messages while a job runs. The final report has bounds of its own (app/job/bounds.ts), so that a job can always end. */
export const DAEMON_BOUNDS: MessageBounds = {
  text: 64 * KIB,
  items: 10_000,
  bytes: 64 * MIB,
  texts: {
    'Log.output': 4 * MIB,
    'TemplateVariable.default_value': 4 * MIB,
    'VariableValue.value': 4 * MIB,
  },
  lists: { 'UpdateJobRequest.logs': 100_000 },
  elsewhere: ['provisionerd.CompletedJob', 'provisionerd.FailedJob'],
};
