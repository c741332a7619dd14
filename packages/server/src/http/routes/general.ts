import type { BuildInfoResponse } from '@ropewalk/contract';
import { AGENT_API, formatApiVersion, PROVISIONER_API } from '@ropewalk/wire/api-versions';
import { authCheck } from '../../app/context/authcheck.ts';
import type { Ctx } from '../../app/context/context.ts';
import { getAppearance, updateAppearance } from '../../app/deployment/appearance.ts';
import { getHealthSettings, type Health, updateHealthSettings } from '../../app/deployment/health.ts';
import {
  applicationsHost,
  availableExperiments,
  deploymentStats,
  entitlements,
  experiments,
  getDeploymentConfig,
  sshConfig,
} from '../../app/deployment/info.ts';
import { updateCheck } from '../../app/deployment/latest-release.ts';
import { type ProfileKind, type ProfileRecorder, recordProfile } from '../../app/deployment/profiles.ts';
import { replicas } from '../../app/deployment/replicas.ts';
import { deploymentSecurity } from '../../app/deployment/security.ts';
import { getPrebuildsSettings, updatePrebuildsSettings } from '../../app/prebuild/settings.ts';
import type { CspReports } from '../dashboard/csp-reports.ts';
import { defineHandlers, type Exchange } from '../exchange.ts';
import { installCommand } from '../executables/install.ts';
import type { TlsServer } from '../tls.ts';

export interface General {
  health: Health;
  cspReports: CspReports;
  profiler: ProfileRecorder;
  certificates: TlsServer['certificates'];
  webpushKey: string;
}

/** The version, configuration and health of this installation. */
export function generalHandlers({ health, cspReports, profiler, certificates, webpushKey }: General) {
  async function sendProfile(ctx: Ctx, { reply }: Exchange, kind: ProfileKind, { seconds }: { seconds?: number }) {
    const profile = await recordProfile(ctx, profiler, kind, seconds);
    reply.type('application/octet-stream');
    reply.header('content-disposition', `attachment; filename="${kind}.pb.gz"`);
    return profile;
  }
  return defineHandlers({
    'GET /': () => ({ message: '👋' }),
    'GET /buildinfo': (ctx): BuildInfoResponse => ({
      external_url: '',
      version: ctx.version,
      dashboard_url: ctx.accessUrl,
      telemetry: false,
      workspace_proxy: false,
      agent_api_version: formatApiVersion(AGENT_API),
      provisioner_api_version: formatApiVersion(PROVISIONER_API),
      deployment_id: ctx.deploymentId,
      upgrade_message:
        ctx.config.cliUpgradeMessage || `Install the coder of this server with: ${installCommand(ctx.accessUrl)}`,
      webpush_public_key: webpushKey,
    }),
    'GET /deployment/config': (ctx) => getDeploymentConfig(ctx),
    'GET /deployment/ssh': (ctx) => sshConfig(ctx),
    'GET /deployment/stats': (ctx) => deploymentStats(ctx),
    'GET /experiments': () => [...experiments()],
    'GET /experiments/available': () => availableExperiments(),
    'GET /updatecheck': (ctx) => updateCheck(ctx),
    'GET /debug/health': (ctx, { query }) => health.report(ctx, query.force === true),
    'GET /debug/health/settings': (ctx) => getHealthSettings(ctx),
    'PUT /debug/health/settings': (ctx, { body }) => updateHealthSettings(ctx, body),
    'GET /debug/pprof/profile': (ctx, { query, http }) => sendProfile(ctx, http, 'profile', query),
    'GET /debug/pprof/heap': (ctx, { query, http }) => sendProfile(ctx, http, 'heap', query),
    'GET /deployment/security': (ctx) => deploymentSecurity(ctx, certificates()),
    'GET /appearance': (ctx) => getAppearance(ctx),
    'PUT /appearance': (ctx, { body }) => updateAppearance(ctx, body),
    'GET /entitlements': (ctx) => entitlements(ctx),
    'GET /prebuilds/settings': (ctx) => getPrebuildsSettings(ctx),
    'PUT /prebuilds/settings': (ctx, { body }) => updatePrebuildsSettings(ctx, body),
    'GET /replicas': (ctx) => replicas(ctx),
    // nothing here needs a license
    'GET /licenses': () => [],
    'GET /applications/host': (ctx) => applicationsHost(ctx),
    'POST /csp/reports': (ctx, { body }) => cspReports.take(body, ctx.ip),
    'POST /authcheck': (ctx, { body }) => authCheck(ctx, body),
  });
}
