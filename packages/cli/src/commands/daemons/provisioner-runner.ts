import { command } from '../../framework/definition.ts';
import { outliveOutputs } from './outputs.ts';

/** The process that hosts terraform's runs in the single executable; it ends by itself. */
export default command({}, async () => {
  const { runRunner } = await import('@platform/provisioner/runner/main');
  process.removeAllListeners('SIGINT');
  outliveOutputs();
  runRunner();
  await new Promise(() => {});
});
