// The operator as in a pod, with the folder of its service account as the argument.
import { createLogger } from '@ropewalk/kit';
import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import { inClusterConnection, startOperator } from '@ropewalk/operator';

const connection = inClusterConnection(process.env, process.argv[2]);
const operator = startOperator({ connection, pollMs: 2_000, log: createLogger() });
releaseMemoryWhenIdle();
await operator.done;
