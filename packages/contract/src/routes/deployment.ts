import { Type } from 'typebox';
import { Change } from '../schema/changes.ts';
import { Response } from '../schema/common.ts';
import {
  AppearanceConfig,
  AppHostResponse,
  AvailableExperiments,
  BuildInfoResponse,
  CSPViolation,
  DeploymentSecurity,
  DeploymentStats,
  Entitlements,
  Experiment,
  License,
  PrebuildsSettings,
  Replica,
  SSHConfigResponse,
  UpdateAppearanceConfig,
  UpdateCheckResponse,
} from '../schema/deployment.ts';
import { DeploymentConfig } from '../schema/deployment-config.ts';
import { BytesSentRecv, HealthcheckReport, HealthSettings, UpdateHealthSettings } from '../schema/health.ts';
import { Line } from '../schema/kit.ts';
import { AuthorizationRequest, AuthorizationResponse } from '../schema/users.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

/** How long a profile is recorded, in seconds. 0 and absent: 30. */
const Recording = Type.Object({ seconds: Type.Optional(Type.Number({ minimum: 0, maximum: 300 })) });

export const deploymentRoutes = {
  'GET /': route({
    tag: 'General',
    auth: 'none',
    responses: { 200: Response },
  }),
  'GET /buildinfo': route({
    tag: 'General',
    auth: 'none',
    responses: { 200: BuildInfoResponse },
  }),
  'GET /events': route({
    tag: 'General',
    auth: 'session',
    summary:
      'Streams changes of the objects that the caller may read. Events: hello (ChangeHello) first, change (Change), reset (read everything again: changes were missed) and ping. Each event has an id, which resumes the stream.',
    query: Type.Object({
      /** In place of the header Last-Event-ID, for clients that cannot set it. */
      last_event_id: Type.Optional(Line),
    }),
    stream: 'sse',
    responses: { 200: Change },
  }),
  'GET /deployment/config': route({
    tag: 'General',
    auth: 'session',
    responses: { 200: DeploymentConfig },
  }),
  'GET /deployment/ssh': route({
    tag: 'General',
    auth: 'session',
    responses: { 200: SSHConfigResponse },
  }),
  'GET /deployment/stats': route({
    tag: 'General',
    auth: 'session',
    responses: { 200: DeploymentStats },
  }),
  'POST /csp/reports': route({
    tag: 'General',
    // the page of the sign-in reports, too
    auth: 'none',
    body: CSPViolation,
    unknownKeys: unknownKeys('report'),
    responses: { 200: Nothing },
  }),
  'GET /experiments': route({
    tag: 'General',
    auth: 'session',
    responses: { 200: Type.Array(Experiment) },
  }),
  'GET /experiments/available': route({
    tag: 'General',
    auth: 'session',
    responses: { 200: AvailableExperiments },
  }),
  'GET /updatecheck': route({
    tag: 'General',
    auth: 'none',
    responses: { 200: UpdateCheckResponse },
  }),
  'GET /debug/health': route({
    tag: 'Debug',
    auth: 'session',
    query: Type.Object({ force: Type.Optional(Type.Boolean()) }),
    responses: { 200: HealthcheckReport },
  }),
  'GET /debug/health/settings': route({
    tag: 'Debug',
    auth: 'session',
    responses: { 200: HealthSettings },
  }),
  'PUT /debug/health/settings': route({
    tag: 'Debug',
    auth: 'session',
    body: UpdateHealthSettings,
    unknownKeys: unknownKeys('display'),
    responses: { 200: UpdateHealthSettings },
  }),
  'GET /debug/coordinator': route({
    tag: 'Debug',
    auth: 'session',
    summary: 'The nodes and tunnels that this server coordinates, as text.',
    stream: 'bytes',
    responses: { 200: Nothing },
  }),
  'GET /debug/tailnet': route({
    tag: 'Debug',
    auth: 'session',
    summary: "The state of this server's relay, as text.",
    stream: 'bytes',
    responses: { 200: Nothing },
  }),
  'GET /debug/derp/traffic': route({
    tag: 'Debug',
    auth: 'session',
    summary: "The bytes that each client of this server's relay has sent and received since it connected.",
    responses: { 200: Type.Array(BytesSentRecv) },
  }),
  'GET /debug/pprof/profile': route({
    tag: 'Debug',
    auth: 'session',
    summary: 'Records where the server spends CPU time, for go tool pprof. 30 seconds by default.',
    stream: 'bytes',
    query: Recording,
    responses: { 200: Nothing },
  }),
  'GET /debug/pprof/heap': route({
    tag: 'Debug',
    auth: 'session',
    summary:
      'Records where memory in use was allocated, for go tool pprof: during these seconds, or with CODER_PPROF_ENABLE since the server started.',
    stream: 'bytes',
    query: Recording,
    responses: { 200: Nothing },
  }),
  'GET /deployment/security': route({
    tag: 'Deployment',
    auth: 'session',
    summary: 'The keys that encrypt stored secrets and the TLS certificates that the server presents.',
    responses: { 200: DeploymentSecurity },
  }),
  'GET /appearance': route({
    tag: 'Deployment',
    auth: 'optional',
    summary: 'The name, logo, banners and links of this deployment. Without a session, only its name and logo.',
    responses: { 200: AppearanceConfig },
  }),
  'PUT /appearance': route({
    tag: 'Deployment',
    auth: 'session',
    body: UpdateAppearanceConfig,
    unknownKeys: unknownKeys('display'),
    responses: { 200: UpdateAppearanceConfig },
  }),
  'GET /entitlements': route({
    tag: 'Deployment',
    auth: 'session',
    responses: { 200: Entitlements },
  }),
  'GET /prebuilds/settings': route({ tag: 'Prebuilds', auth: 'session', responses: { 200: PrebuildsSettings } }),
  'PUT /prebuilds/settings': route({
    tag: 'Prebuilds',
    auth: 'session',
    body: PrebuildsSettings,
    unknownKeys: unknownKeys('limit'),
    responses: { 200: PrebuildsSettings },
  }),
  'GET /replicas': route({
    tag: 'Deployment',
    auth: 'session',
    summary: 'The servers of this installation.',
    responses: { 200: Type.Array(Replica) },
  }),
  'GET /licenses': route({
    tag: 'Deployment',
    auth: 'session',
    summary: 'An empty list: no feature requires a license.',
    responses: { 200: Type.Array(License) },
  }),
  'GET /applications/host': route({
    tag: 'Applications',
    auth: 'session',
    responses: { 200: AppHostResponse },
  }),
  'POST /authcheck': route({
    tag: 'Authorization',
    auth: 'session',
    body: AuthorizationRequest,
    unknownKeys: unknownKeys('answer'),
    responses: { 200: AuthorizationResponse },
  }),
} as const;
