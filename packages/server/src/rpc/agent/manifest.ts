import { uuidBytes } from '@ropewalk/wire/uuid';
import type { Services } from '../../app/context/context.ts';
import { derpMap, derpMapMessage } from '../../app/tailnet/derp-map.ts';
import { agentSecrets } from '../../app/user/agent-secrets.ts';
import { portProxyUri, subdomainName } from '../../app/values/app-address.ts';
import { appsOfAgents, devcontainersOfAgent, metadataOfAgent, scriptsOfAgents } from '../../db/queries/agent-parts.ts';
import { agentById } from '../../db/queries/agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import { APP_HEALTH, SHARING } from './names.ts';

/**
 * The scripts, apps, metadata and secrets of an agent. Read at each connection, and for new secrets. `onSecrets` receives the
 * version of the secrets.
 */
export async function manifest(services: Services, agent: AgentIdentity, onSecrets: (version: string) => void) {
  const { sql } = services;
  const [fresh, scripts, apps, metadata, devcontainers, { secrets, version }] = await Promise.all([
    agentById(sql, agent.id),
    scriptsOfAgents(sql, [agent.id]),
    appsOfAgents(sql, [agent.id]),
    metadataOfAgent(sql, agent.id),
    devcontainersOfAgent(sql, agent.id),
    agentSecrets(services, agent),
  ]);
  onSecrets(version);
  return {
    agentId: uuidBytes(agent.id),
    agentName: agent.name,
    ownerUsername: agent.owner_name,
    workspaceId: uuidBytes(agent.workspace_id),
    workspaceName: agent.workspace_name,
    gitAuthConfigs: services.config.externalAuth.filter(({ regex }) => regex !== '').length,
    environmentVariables: fresh!.environment_variables,
    directory: agent.directory,
    vsCodePortProxyUri: portProxyUri(services, agent),
    motdPath: agent.motd_file,
    disableDirectConnections: services.config.blockDirectConnections,
    derpForceWebsockets: services.config.derpForceWebsockets,
    derpMap: derpMapMessage(derpMap(services)),
    scripts: scripts.map((script) => ({
      id: uuidBytes(script.id),
      logSourceId: uuidBytes(script.log_source_id),
      logPath: script.log_path,
      script: script.script,
      cron: script.cron,
      runOnStart: script.run_on_start,
      runOnStop: script.run_on_stop,
      startBlocksLogin: script.start_blocks_login,
      timeout: { seconds: BigInt(script.timeout_seconds), nanos: 0 },
      displayName: script.display_name,
      waitsFor: script.waits_for.map(({ id, any }) => ({ scriptId: uuidBytes(id), anyOutcome: any })),
    })),
    apps: apps.map((app) => ({
      id: uuidBytes(app.id),
      url: app.url ?? '',
      external: app.external,
      slug: app.slug,
      displayName: app.display_name,
      command: app.command ?? '',
      icon: app.icon,
      subdomain: app.subdomain,
      subdomainName: app.subdomain ? subdomainName(app.slug, agent.name, agent.workspace_name, agent.owner_name) : '',
      sharingLevel: SHARING[app.sharing_level],
      healthcheck: {
        url: app.healthcheck_url,
        interval: { seconds: BigInt(app.healthcheck_interval), nanos: 0 },
        threshold: app.healthcheck_threshold,
      },
      health: APP_HEALTH[app.health],
      hidden: app.hidden,
    })),
    // upstream's agents read the nanoseconds of these two as seconds
    metadata: metadata.map((item) => ({
      displayName: item.display_name,
      key: item.key,
      script: item.script,
      interval: { seconds: 0n, nanos: item.interval_seconds },
      timeout: { seconds: 0n, nanos: item.timeout_seconds },
    })),
    devcontainers: devcontainers.map((container) => ({
      id: uuidBytes(container.id),
      name: container.name,
      workspaceFolder: container.workspace_folder,
      configPath: container.config_path,
      ...(container.subagent_id ? { subagentId: uuidBytes(container.subagent_id) } : {}),
    })),
    secrets,
    ...(agent.parent_id ? { parentId: uuidBytes(agent.parent_id) } : {}),
  };
}
