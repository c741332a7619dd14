import type { BuildInfoResponse } from '@platform/contract';
import { defineHandlers } from '../exchange.ts';

export const AGENT_API_VERSION = '2.6';
export const PROVISIONER_API_VERSION = '1.8';

export const generalHandlers = defineHandlers({
  'GET /': () => ({ message: '👋' }),
  'GET /buildinfo': (ctx): BuildInfoResponse => ({
    external_url: '',
    version: ctx.version,
    dashboard_url: ctx.accessUrl,
    telemetry: false,
    workspace_proxy: false,
    agent_api_version: AGENT_API_VERSION,
    provisioner_api_version: PROVISIONER_API_VERSION,
    deployment_id: ctx.deploymentId,
  }),
});
