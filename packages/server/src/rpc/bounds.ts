import type { MessageBounds } from '@platform/wire/bounds';

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * Of what an agent reports: whoever has a workspace's token may say anything, and what is stored of it is shown in
 * lists to all who may read the workspace.
 */
export const AGENT_BOUNDS: MessageBounds = {
  text: 4 * KIB,
  items: 1_000,
  bytes: 4 * KIB,
  texts: {
    // longer ones are cut before they are stored
    'Log.output': MIB,
    'Result.value': 64 * KIB,
    'Result.error': 64 * KIB,
  },
  lists: { 'BatchCreateLogsRequest.logs': 50_000 },
};

/** Of what a daemon says while a job runs. Its verdict is held against the rules of jobs: a job must be able to end. */
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
