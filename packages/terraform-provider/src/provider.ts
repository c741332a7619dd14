import {
  create,
  type DescMethod,
  type DescMethodUnary,
  fromBinary,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import type { Logger } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { Provider } from '@ropewalk/wire/proto/tfplugin5';
import { Diagnostics } from './diagnostics.ts';
import {
  changed,
  checkValues,
  conform,
  publishedData,
  publishedForms,
  settle,
  warnDeprecated,
  withDefaults,
} from './generic.ts';
import { goUrlProblem } from './go-url.ts';
import { dynamic, schemaMessage, toDiagnostics, toPath, undynamic } from './messages.ts';
import { dataSources, resources } from './registry.ts';
import { optional, type Schema } from './schema.ts';
import type { Context, DataSource, ResourceType } from './types.ts';
import { isObj, isUnknown, type Obj, str, UNKNOWN } from './value.ts';

const providerSchema: Schema = {
  version: 0,
  description: 'Registers workspaces, their agents and apps with the platform.',
  attributes: { url: optional('string', 'Access URL of the deployment. Default: CODER_AGENT_URL.') },
};

/** One client connection. Terraform opens one for each provider block, which may have its own `url`. */
export interface Connection {
  url: string;
}

type Input<M extends DescMethod> = MessageShape<M['input']>;
type Output<M extends DescMethod> = Parameters<typeof create<M['output']>>[1];
type Calls = {
  [K in keyof typeof Provider.method]?: (
    request: Input<(typeof Provider.method)[K]>,
    connection: Connection,
  ) => Output<(typeof Provider.method)[K]>;
};

const text = new TextDecoder();

/** The environment of one call. */
type ContextOf = (connection: Connection) => Context;

function calls(env: Readonly<Record<string, string>>, log: Logger): Calls {
  const contextOf: ContextOf = (connection) => ({
    env,
    url: connection.url || (env['CODER_AGENT_URL'] ?? ''),
    log,
    diagnostics: new Diagnostics(),
  });
  return {
    ...descriptions,
    ...configuration(env),
    ...validation(contextOf),
    ...resourceCalls(contextOf),
    ...dataSourceCalls(contextOf),
    stop: () => ({}),
  };
}

/** What the provider offers. */
const descriptions: Calls = {
  getSchema: () => ({
    provider: schemaMessage(providerSchema),
    resourceSchemas: Object.fromEntries(Object.entries(resources).map(([k, v]) => [k, schemaMessage(v.schema)])),
    dataSourceSchemas: Object.fromEntries(Object.entries(dataSources).map(([k, v]) => [k, schemaMessage(v.schema)])),
    serverCapabilities: { getProviderSchemaOptional: true },
  }),
  getMetadata: () => ({
    resources: Object.keys(resources).map((typeName) => ({ typeName })),
    dataSources: Object.keys(dataSources).map((typeName) => ({ typeName })),
    serverCapabilities: { getProviderSchemaOptional: true },
  }),
  getResourceIdentitySchemas: () => ({}),
  getFunctions: () => ({}),
};

/** The settings of a provider block. */
function configuration(env: Readonly<Record<string, string>>): Calls {
  return {
    prepareProviderConfig: (request) => {
      const url = undynamic(request.config)?.['url'] ?? null;
      const diagnostics = new Diagnostics();
      if (url === '') diagnostics.error(['url'], 'Invalid url', 'url must not be empty.');
      const known = typeof url === 'string' ? url : (env['CODER_AGENT_URL'] ?? '');
      const problem = isUnknown(url) ? undefined : goUrlProblem(known);
      if (problem) diagnostics.error(['url'], 'Invalid url', `The access URL ${JSON.stringify(known)} ${problem}.`);
      return { preparedConfig: request.config!, diagnostics: toDiagnostics(diagnostics.list) };
    },
    configure: (request, connection) => {
      connection.url = str(undynamic(request.config) ?? {}, 'url');
      return {};
    },
  };
}

/** Checks of the blocks in a template. */
function validation(contextOf: ContextOf): Calls {
  const validate = (type: ResourceType | DataSource, config: Obj, connection: Connection) => {
    const ctx = contextOf(connection);
    checkValues(type.schema, config, ctx.diagnostics);
    warnDeprecated(type.schema, config, ctx.diagnostics);
    type.validate?.(withDefaults(type.schema, config, false), ctx, config);
    return { diagnostics: toDiagnostics(ctx.diagnostics.list) };
  };
  return {
    validateResourceTypeConfig: (request, connection) =>
      validate(resource(request.typeName), undynamic(request.config) ?? {}, connection),
    validateDataSourceConfig: (request, connection) =>
      validate(dataSource(request.typeName), undynamic(request.config) ?? {}, connection),
  };
}

/** The life of a resource: its stored state, read, plan and apply. */
function resourceCalls(contextOf: ContextOf): Calls {
  return {
    upgradeResourceState: (request) => {
      const { schema } = resource(request.typeName);
      const raw: unknown = JSON.parse(text.decode(request.rawState?.json ?? new Uint8Array()) || '{}');
      return { upgradedState: dynamic(conform(schema, isObj(raw as Obj) ? (raw as Obj) : {})) };
    },
    readResource: (request, connection) => {
      const type = resource(request.typeName);
      const ctx = contextOf(connection);
      const state = undynamic(request.currentState);
      if (state) type.read?.(state, ctx);
      return {
        newState: dynamic(state),
        private: request.private,
        diagnostics: toDiagnostics(ctx.diagnostics.list),
      };
    },
    planResourceChange: (request, connection) => {
      const type = resource(request.typeName);
      const ctx = contextOf(connection);
      const proposed = undynamic(request.proposedNewState);
      if (!proposed) return { plannedState: dynamic(null), plannedPrivate: request.priorPrivate };
      const config = undynamic(request.config) ?? {};
      const prior = undynamic(request.priorState);
      const planned = publishedForms(type.schema, withDefaults(type.schema, proposed, prior === null));
      type.plan?.(planned, config, ctx);
      const replace = prior ? changed(type.schema, prior, planned) : [];
      return {
        // Return the prior state if nothing changed: a default or computed part that an older version stored
        // differently stays.
        plannedState: dynamic(prior && replace.length === 0 ? prior : planned),
        requiresReplace: replace.map((name) => toPath([name])!),
        plannedPrivate: request.priorPrivate,
        diagnostics: toDiagnostics(ctx.diagnostics.list),
        legacyTypeSystem: true, // Only providers of this kind may replace a null with a default.
      };
    },
    applyResourceChange: (request, connection) => {
      const type = resource(request.typeName);
      const ctx = contextOf(connection);
      const state = undynamic(request.plannedState);
      if (state) {
        if (isUnknown(state['id'] ?? UNKNOWN) || state['id'] === null) state['id'] = crypto.randomUUID();
        type.create?.(state, ctx, undynamic(request.config) ?? {});
      }
      return {
        newState: dynamic(state && (settle(state) as Obj)),
        diagnostics: toDiagnostics(ctx.diagnostics.list),
        legacyTypeSystem: true,
      };
    },
    importResourceState: (request) => {
      const diagnostics = new Diagnostics();
      diagnostics.error(
        [],
        'Import is not supported',
        `A ${request.typeName} only exists within the builds of its workspace.`,
      );
      return { diagnostics: toDiagnostics(diagnostics.list) };
    },
  };
}

function dataSourceCalls(contextOf: ContextOf): Calls {
  return {
    readDataSource: (request, connection) => {
      const type = dataSource(request.typeName);
      const ctx = contextOf(connection);
      const config = withDefaults(type.schema, undynamic(request.config) ?? {}, false);
      checkValues(type.schema, config, ctx.diagnostics);
      const value = ctx.diagnostics.failed ? config : type.read(config, ctx);
      return { state: dynamic(publishedData(type.schema, value)), diagnostics: toDiagnostics(ctx.diagnostics.list) };
    },
  };
}

function resource(name: string): ResourceType {
  const found = ownValue(resources, name);
  if (!found) throw new Error(`unknown resource type ${name}`);
  return found;
}

function dataSource(name: string): DataSource {
  const found = ownValue(dataSources, name);
  if (!found) throw new Error(`unknown data source ${name}`);
  return found;
}

/** The provider's RPCs from bytes to bytes, by method name. Each throws if the request is malformed. */
export function providerMethods(
  env: Readonly<Record<string, string>>,
  log: Logger,
): Map<string, (request: Uint8Array, connection: Connection) => Uint8Array> {
  const out = new Map<string, (request: Uint8Array, connection: Connection) => Uint8Array>();
  const implemented = calls(env, log) as Record<
    string,
    ((request: unknown, connection: Connection) => Record<string, unknown>) | undefined
  >;
  for (const method of Provider.methods as DescMethodUnary[]) {
    const call = implemented[method.localName];
    if (!call) continue;
    const encoded = method.name === 'GetSchema' ? schemaCache : undefined;
    out.set(`/${Provider.typeName}/${method.name}`, (request, connection) => {
      if (encoded?.bytes) return encoded.bytes;
      const answer = call(fromBinary(method.input, request), connection);
      const bytes = toBinary(method.output, create(method.output, answer));
      if (encoded) encoded.bytes = bytes;
      return bytes;
    });
  }
  return out;
}

/** Cached: the schema never changes while the process runs, and every Terraform command requests it. */
const schemaCache: { bytes?: Uint8Array } = {};
