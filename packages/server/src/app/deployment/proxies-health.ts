import type { HealthMessage, WorkspaceProxyReport } from '@ropewalk/contract';
import type { Services } from '../context/context.ts';
import { textForAdministrators } from '../context/unexpected.ts';
import type { ProxyHealth } from '../workspace-proxy/health.ts';
import { everyProxy } from '../workspace-proxy/read.ts';

const CHECK_MS = 30_000;

/**
 * The section `workspace_proxy` of the health report. Codes and severities are upstream's: while one region works, and the
 * primary one does, nothing is worse than a warning.
 */
export async function checkProxies(services: Services, health: ProxyHealth): Promise<WorkspaceProxyReport> {
  const section = { dismissed: false, error: null, healthy: true };
  const failed = (err: unknown) => textForAdministrators(err, services.log, { check: 'workspace proxies' });
  try {
    await health.checkAll(AbortSignal.timeout(CHECK_MS));
  } catch (err) {
    const message = `The server could not check the workspace proxies: ${failed(err)}`;
    return {
      ...section,
      severity: 'warning',
      warnings: [{ code: 'EWP01', message }],
      workspace_proxies: { regions: [] },
    };
  }
  try {
    const workspace_proxies = await everyProxy(services, health);
    const warnings = workspace_proxies.regions.flatMap(({ name, status }) =>
      [...(status?.report.errors ?? []), ...(status?.report.warnings ?? [])].map(
        (text): HealthMessage => ({ code: 'EWP04', message: `${name}: ${text}` }),
      ),
    );
    const isFine = warnings.length === 0 && workspace_proxies.regions.every(({ healthy }) => healthy);
    return { ...section, severity: isFine ? 'ok' : 'warning', warnings, workspace_proxies };
  } catch (err) {
    const error = `EWP02: the server could not read the workspace proxies: ${failed(err)}`;
    return { ...section, error, healthy: false, severity: 'error', warnings: [], workspace_proxies: { regions: [] } };
  }
}
