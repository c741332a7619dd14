import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { reconcilePools } from '../app/prebuild/reconcile.ts';

const NAME = 'prebuilt workspaces';
/** The time after a failed run, which the database or a pause of the server may have caused, in ms. */
const RETRY_MS = 5_000;

/** Keeps the pools of prebuilt workspaces at their size. */
export function prebuildsTask(services: Services): BackgroundTask[] {
  const { config, events } = services;
  if (config.workspacePrebuildsReconciliationInterval <= 0) return [];
  return [
    {
      name: NAME,
      periodMs: config.workspacePrebuildsReconciliationInterval,
      retryMs: Math.min(RETRY_MS, config.workspacePrebuildsReconciliationInterval),
      needsLock: true,
      wakeOn: (wake) => [
        // a build of a pool ended, or a person claimed a workspace
        events.on('workspace_changed', ({ owner_id: owner }) => void (owner === PREBUILDS_USER_ID && wake())),
        // a new active version, a deprecation or a deletion; the end of a pause
        events.on('object_changed', ({ kind, id }) => {
          if (kind === 'template' || (kind === 'deployment' && id === 'prebuilds')) wake();
        }),
      ],
      async run(signal) {
        const isUnfinished = await reconcilePools(systemContext(services, NAME, signal));
        return isUnfinished ? 0 : undefined;
      },
    },
  ];
}
