import type { MessageInitShape } from '@bufbuild/protobuf';
import { ownValue } from '@ropewalk/kit/own-value';
import {
  CreateSubAgentRequest_App_OpenIn,
  CreateSubAgentRequest_App_SharingLevel,
  type CreateSubAgentRequest_AppSchema,
  CreateSubAgentRequest_DisplayApp,
} from '@ropewalk/wire/proto/agent';
import type { Configuration } from './command.ts';

export type SubAgentApp = MessageInitShape<typeof CreateSubAgentRequest_AppSchema>;

/** What a devcontainer.json says below `customizations.coder`. */
export interface Customizations {
  /** The name of the sub-agent. Empty: derived from the folder. */
  name: string;
  /** Whether the agent leaves this dev container alone. */
  ignore: boolean;
  autoStart: boolean;
  apps: SubAgentApp[];
  displayApps: CreateSubAgentRequest_DisplayApp[];
}

const NAME = /^[a-z0-9](-?[a-z0-9])*$/i;

const DISPLAY_APPS = {
  vscode: CreateSubAgentRequest_DisplayApp.VSCODE,
  vscode_insiders: CreateSubAgentRequest_DisplayApp.VSCODE_INSIDERS,
  web_terminal: CreateSubAgentRequest_DisplayApp.WEB_TERMINAL,
  ssh_helper: CreateSubAgentRequest_DisplayApp.SSH_HELPER,
  port_forwarding_helper: CreateSubAgentRequest_DisplayApp.PORT_FORWARDING_HELPER,
} as const;
type DisplayApp = keyof typeof DISPLAY_APPS;

const SHARING: Record<string, CreateSubAgentRequest_App_SharingLevel> = {
  owner: CreateSubAgentRequest_App_SharingLevel.OWNER,
  authenticated: CreateSubAgentRequest_App_SharingLevel.AUTHENTICATED,
  organization: CreateSubAgentRequest_App_SharingLevel.ORGANIZATION,
  public: CreateSubAgentRequest_App_SharingLevel.PUBLIC,
};

type Values = Record<string, unknown>;
const values = (given: unknown): Values =>
  typeof given === 'object' && given !== null && !Array.isArray(given) ? (given as Values) : {};
const list = (given: unknown): unknown[] => (Array.isArray(given) ? given : given === undefined ? [] : [given]);

/** Reads the customizations of a configuration. Those of features and images count where the file itself has none. */
export function customizationsOf({ configuration, mergedConfiguration }: Configuration): Customizations {
  const own = values(configuration?.customizations?.coder);
  // the most specific one is the last
  const all = list(mergedConfiguration?.customizations?.coder ?? own).map(values);
  const shown: Record<DisplayApp, boolean> = {
    vscode: true,
    vscode_insiders: false,
    web_terminal: true,
    ssh_helper: true,
    port_forwarding_helper: true,
  };
  const apps = new Map<string, SubAgentApp>();
  for (const { displayApps, apps: more } of all) {
    const given = values(displayApps);
    for (const name of Object.keys(shown) as DisplayApp[]) {
      const value = given[name];
      if (typeof value === 'boolean') shown[name] = value;
    }
    for (const app of Array.isArray(more) ? more.map(values) : []) apps.set(String(app['slug'] ?? ''), toApp(app));
  }
  const { name, ignore, autoStart } = own;
  return {
    name: typeof name === 'string' && NAME.test(name) && name.length <= 64 ? name : '',
    ignore: ignore === true,
    autoStart: autoStart === true,
    apps: [...apps.values()],
    displayApps: (Object.keys(shown) as DisplayApp[]).filter((app) => shown[app]).map((app) => DISPLAY_APPS[app]),
  };
}

function toApp(app: Values): SubAgentApp {
  const text = (name: string) => (typeof app[name] === 'string' ? { [name]: app[name] } : {});
  const flag = (name: string) => (typeof app[name] === 'boolean' ? { [name]: app[name] } : {});
  const { openIn, share, order, healthCheck } = app;
  const check = values(healthCheck);
  const level = typeof share === 'string' ? ownValue(SHARING, share) : undefined;
  const whole = (given: unknown) => (Number.isInteger(given) ? (given as number) : 0);
  return {
    slug: String(app['slug'] ?? ''),
    ...text('command'),
    ...text('displayName'),
    ...text('group'),
    ...text('icon'),
    ...text('url'),
    ...flag('external'),
    ...flag('hidden'),
    ...flag('subdomain'),
    ...(Number.isInteger(order) ? { order: order as number } : {}),
    ...(openIn === 'tab' ? { openIn: CreateSubAgentRequest_App_OpenIn.TAB } : {}),
    ...(level === undefined ? {} : { share: level }),
    ...(typeof check['url'] === 'string'
      ? { healthcheck: { url: check['url'], interval: whole(check['interval']), threshold: whole(check['threshold']) } }
      : {}),
  };
}

/** A name for an agent from the name of a folder: letters, digits and single hyphens. */
export function safeName(text: string): string {
  const name = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 56)
    .replace(/-$/, '');
  return name || 'devcontainer';
}
