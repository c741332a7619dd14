// The operator as in a pod, with the folder of its service account as the argument.
import { createLogger } from '@platform/kit';
import { releaseMemoryWhenIdle } from '@platform/kit/idle-memory';
import { inClusterConnection, startOperator } from '@platform/operator';

const connection = inClusterConnection(process.env, process.argv[2]);
const operator = startOperator({ connection, pollMs: 2_000, log: createLogger() });
releaseMemoryWhenIdle();
await operator.done;
