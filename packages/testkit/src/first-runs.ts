import type { TestServer } from './server.ts';
import { eventually } from './wait.ts';

/** Waits for the first runs of background tasks, for tests that do the same and count what they find. */
export async function firstRuns({ services }: TestServer, ...names: string[]): Promise<void> {
  await eventually(`the first runs of ${names.join(', ')}`, () => {
    const ran = services.backgroundTasks().filter(({ runs }) => runs.succeeded > 0);
    return names.every((name) => ran.some((task) => task.name === name));
  });
}
