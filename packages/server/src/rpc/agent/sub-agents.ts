import type { DrpcHandlers } from '@ropewalk/wire/drpc';
import {
  type Agent,
  type CreateSubAgentRequest_App,
  CreateSubAgentRequest_App_OpenIn,
  CreateSubAgentRequest_App_SharingLevel,
  CreateSubAgentRequest_DisplayApp,
} from '@ropewalk/wire/proto/agent';
import { uuidBytes } from '@ropewalk/wire/uuid';
import { createSubAgent, deleteSubAgent, listSubAgents, type SubAgentApp } from '../../app/agent/sub-agents.ts';
import type { Services } from '../../app/context/context.ts';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { SubAgent } from '../../db/queries/sub-agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import { uuidText } from './ids.ts';

const DISPLAY_APPS: Record<number, string> = {
  [CreateSubAgentRequest_DisplayApp.VSCODE]: 'vscode',
  [CreateSubAgentRequest_DisplayApp.VSCODE_INSIDERS]: 'vscode_insiders',
  [CreateSubAgentRequest_DisplayApp.WEB_TERMINAL]: 'web_terminal',
  [CreateSubAgentRequest_DisplayApp.SSH_HELPER]: 'ssh_helper',
  [CreateSubAgentRequest_DisplayApp.PORT_FORWARDING_HELPER]: 'port_forwarding_helper',
};
const SHARING: Record<number, SubAgentApp['sharing']> = {
  [CreateSubAgentRequest_App_SharingLevel.OWNER]: 'owner',
  [CreateSubAgentRequest_App_SharingLevel.AUTHENTICATED]: 'authenticated',
  [CreateSubAgentRequest_App_SharingLevel.PUBLIC]: 'public',
  [CreateSubAgentRequest_App_SharingLevel.ORGANIZATION]: 'organization',
};

const wire = ({ id, name, token }: SubAgent) => ({ id: uuidBytes(id), name, authToken: uuidBytes(token) });

function toApp(app: CreateSubAgentRequest_App): SubAgentApp {
  return {
    slug: app.slug,
    displayName: app.displayName ?? '',
    icon: app.icon ?? '',
    command: app.command ?? '',
    url: app.url ?? '',
    external: app.external ?? false,
    subdomain: app.subdomain ?? false,
    hidden: app.hidden ?? false,
    sharing: SHARING[app.share ?? CreateSubAgentRequest_App_SharingLevel.OWNER] ?? 'owner',
    openIn: app.openIn === CreateSubAgentRequest_App_OpenIn.TAB ? 'tab' : 'slim-window',
    group: app.group ?? '',
    order: app.order ?? 0,
    ...(app.healthcheck ? { healthcheck: app.healthcheck } : {}),
  };
}

/** The part of an agent's API that manages its sub-agents. */
export function subAgentApi(
  services: Services,
  agent: ConnectedAgent<AgentIdentity>,
): Pick<DrpcHandlers<typeof Agent>, 'createSubAgent' | 'deleteSubAgent' | 'listSubAgents'> {
  return {
    async createSubAgent({ id, name, directory, architecture, operatingSystem, apps, displayApps }) {
      const made = await createSubAgent(services, agent, {
        ...(id ? { id: uuidText(id) } : {}),
        name,
        directory,
        architecture,
        operatingSystem,
        displayApps: displayApps.flatMap((app) => DISPLAY_APPS[app] ?? []),
        apps: apps.map(toApp),
      });
      return { agent: wire(made.agent), appCreationErrors: made.failures };
    },
    async deleteSubAgent({ id }) {
      await deleteSubAgent(services, agent, uuidText(id));
      return {};
    },
    listSubAgents: async () => ({ agents: (await listSubAgents(services, agent)).map(wire) }),
  };
}
