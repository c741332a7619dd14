import { authorize } from '../../authz/authorize.ts';
import { systemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../../db/connect.ts';
import { setSiteValue, siteValue } from '../../db/queries/site.ts';
import { type Ctx, type Services, systemContext } from '../context/context.ts';
import { audit } from './audit.ts';

export interface SiteSettings<T> {
  read(services: Services): Promise<T>;
  /**
   * Replaces the settings, which needs the permission to change the deployment, and audits that. Does nothing if they
   * are the same. `also` runs in the same transaction.
   */
  replace(ctx: Ctx, after: T, options?: { target?: string; also?: (tx: Tx) => Promise<void> }): Promise<void>;
}

/**
 * Settings of the whole deployment that are stored as one JSON object.
 * @param key where they are stored in `site_config`
 * @param resourceType what the audit log calls them
 * @param initial the settings until somebody changes them, and the values of fields that were added later
 * @param change the id of the change that open pages get, if they show the settings
 */
export function siteSettings<T extends object>(options: {
  key: string;
  resourceType: string;
  initial: T;
  change?: string;
}): SiteSettings<T> {
  const { key, resourceType, initial, change } = options;
  async function stored(db: Db, services: Services): Promise<T> {
    const by = systemTask(systemContext(services, key));
    const text = await siteValue(db, by, key, () => JSON.stringify(initial));
    return { ...initial, ...(JSON.parse(text) as Partial<T>) };
  }
  return {
    read: (services) => stored(services.sql, services),
    async replace(ctx, after, { target = '', also } = {}) {
      const by = authorize(ctx, 'update', { type: 'deployment_config' });
      await ctx.sql.begin(async (tx) => {
        const before = await stored(tx, ctx);
        if (JSON.stringify(before) === JSON.stringify(after)) return;
        await setSiteValue(tx, by, key, JSON.stringify(after));
        await audit(ctx, tx, {
          resourceType,
          resourceId: ctx.deploymentId,
          target,
          action: 'write',
          before,
          after,
        });
        if (change) await ctx.events.publish(tx, 'object_changed', { kind: 'deployment', id: change });
        await also?.(tx);
      });
    },
  };
}
