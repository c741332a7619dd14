import { command } from '../../framework/definition.ts';

/** The root process that starts each build under its own uid. See isolation/protocol.ts of the provisioner. */
export default command({}, async () => {
  const { runLauncher } = await import('@platform/provisioner/isolation/launcher');
  process.removeAllListeners('SIGINT');
  runLauncher();
  await new Promise(() => {});
});
