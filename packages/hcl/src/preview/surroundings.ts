import { ownValue } from '@ropewalk/kit/own-value';
import { convert } from '../constraint.ts';
import { evaluate, exhausted, type Work } from '../evaluate.ts';
import type { Term } from '../lazy.ts';
import { parseExpression } from '../parser.ts';
import type { Template } from '../program/configuration.ts';
import type { BlockInstance } from '../program/instances.ts';
import type { Surroundings } from '../program/program.ts';
import {
  Dict,
  EvaluationError,
  fromJson,
  list,
  object,
  primitiveText,
  toText,
  UNKNOWN,
  Unknown,
  type Value,
} from '../values.ts';
import { knownOr, read } from './read.ts';
import type { PreviewOwner } from './types.ts';

/** A variable of the root module as a build passes it to Terraform: text, with the source of its type. */
export interface GivenVariable {
  name: string;
  type: string;
  value: string;
  /** Whether messages must not quote the value. */
  sensitive?: boolean;
}

/** Parses a variable as Terraform does: text for primitive types or without a type, an expression otherwise. */
export function variableValue({ name, type, value }: GivenVariable, work: Work): Value {
  if (type.trim() === '') return value;
  const of = parseExpression(type).expr;
  try {
    if (!of) throw new EvaluationError('Its type cannot be parsed.');
    if (of.kind === 'variable' && ['string', 'number', 'bool'].includes(of.name)) return convert(value, of, work);
    const given = parseExpression(value).expr;
    if (!given) throw new EvaluationError('Its value is not a valid expression.');
    return convert(evaluate(given, undefined, work), of, work);
  } catch (err) {
    if (err instanceof EvaluationError) throw new EvaluationError(`var.${name}: ${err.message}`);
    throw err;
  }
}

/** The data sources that Terraform read in an earlier plan, by address. */
export class PlannedValues {
  readonly #raw = new Map<string, unknown>();
  readonly #values = new Map<string, Dict | undefined>();

  constructor(plan: unknown) {
    this.#add(field(field(field(plan, 'prior_state'), 'values'), 'root_module'), 0);
  }

  #add(module: unknown, depth: number): void {
    if (depth > 20) return;
    for (const resource of array(field(module, 'resources'))) {
      const address = field(resource, 'address');
      // what people choose and who they are changes, so the plan says nothing about the platform's own data sources
      const own = String(field(resource, 'type')).startsWith('coder_');
      if (typeof address === 'string' && field(resource, 'mode') === 'data' && !own)
        this.#raw.set(address, field(resource, 'values'));
    }
    for (const child of array(field(module, 'child_modules'))) this.#add(child, depth + 1);
  }

  get(address: string): Dict | undefined {
    if (!this.#raw.has(address)) return undefined;
    if (!this.#values.has(address)) this.#values.set(address, dictOf(this.#raw.get(address)));
    return this.#values.get(address);
  }
}

function dictOf(data: unknown): Dict | undefined {
  try {
    const value = fromJson(data);
    return value instanceof Dict ? value : undefined;
  } catch (err) {
    if (err instanceof EvaluationError) return undefined;
    throw err;
  }
}

const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
const array = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** The values in `terraform.tfvars` and `*.auto.tfvars`, which Terraform reads by itself. */
function fileVariables(template: Template): Map<string, Term> {
  const found = new Map<string, Term>();
  const names = [...template.files.paths()].filter((path) => /^(terraform|[^/]*\.auto)\.tfvars(\.json)?$/.test(path));
  const first = (name: string) => Number(!name.startsWith('terraform.tfvars'));
  names.sort((a, b) => first(a) - first(b) || (a < b ? -1 : 1));
  for (const name of names) {
    const source = template.text(name)!;
    if (name.endsWith('.json')) {
      for (const [key, value] of dictOf(parsed(source))?.entries ?? []) found.set(key, value);
      continue;
    }
    for (const { name: key, value } of template.native(name).body.attributes.values()) {
      try {
        found.set(key, evaluate(value, { variables: {}, functions: false }));
      } catch (err) {
        if (!(err instanceof EvaluationError)) throw err;
        found.set(key, UNKNOWN);
      }
    }
  }
  return found;
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

const OWNER_SECRETS = ['oidc_access_token', 'session_token', 'ssh_private_key'];
const WORKSPACE_LATER = ['template_id', 'template_name', 'template_version'];

/** The arguments of a parameter that have a value even if nobody wrote them. */
const PARAMETER_DEFAULTS: Record<string, Value> = {
  type: 'string',
  mutable: false,
  ephemeral: false,
  styling: '{}',
  display_name: null,
  description: null,
  default: null,
  icon: null,
  order: null,
};

/** The workspace of a build. */
export interface ChosenWorkspace {
  id: string;
  name: string;
  transition: 'start' | 'stop' | 'delete';
  /** Whether the build creates a prebuilt workspace, or gives one to its new owner. */
  prebuilt?: 'create' | 'claim';
}

export interface Chosen {
  /** The values of parameters that people have typed so far, by name. */
  inputs: Readonly<Record<string, string>>;
  owner: PreviewOwner;
  /** The server's address, without a trailing slash. Absent: unknown. */
  accessUrl?: string;
  /** Absent: its id and name are unknown, and it starts. */
  workspace?: ChosenWorkspace;
  /** Values of the root module's variables. They win over those in the template's files. */
  variables: readonly GivenVariable[];
}

/** What the server knows before Terraform runs. */
export function surroundings(template: Template, planned: PlannedValues, chosen: Chosen, work: Work): Surroundings {
  const given = new Map(chosen.variables.map((variable) => [variable.name, variable]));
  let inFiles: Map<string, Term> | undefined;
  const owner = ownerValue(chosen.owner);
  const workspace = workspaceValue(chosen);
  return {
    variable(name) {
      const variable = given.get(name);
      if (variable) return variableValue(variable, work);
      inFiles ??= fileVariables(template);
      return inFiles.get(name);
    },
    attribute(instance, name) {
      if (instance.block.type !== 'data') return undefined;
      if (instance.type === 'coder_workspace_owner') return owner.entries.get(name);
      if (instance.type === 'coder_workspace') return workspace.entries.get(name);
      if (instance.type === 'coder_parameter') return parameterAttribute(instance, name, chosen.inputs, work);
      return undefined;
    },
    attributeNames(instance) {
      if (instance.block.type !== 'data') return undefined;
      if (instance.type === 'coder_workspace_owner') return owner.entries.keys();
      if (instance.type === 'coder_workspace') return workspace.entries.keys();
      if (instance.type === 'coder_parameter') return ['name', 'value', 'optional', ...Object.keys(PARAMETER_DEFAULTS)];
      return undefined;
    },
    read: (address) => planned.get(address),
  };
}

function parameterAttribute(
  instance: BlockInstance,
  name: string,
  inputs: Readonly<Record<string, string>>,
  work: Work,
): Term | undefined {
  if (name === 'value') return parameterValue(instance, inputs);
  if (name === 'optional') return instance.body.written('default') !== undefined;
  const configured = instance.configured(name);
  if (configured !== undefined || exhausted(work)) return configured;
  return ownValue(PARAMETER_DEFAULTS, name);
}

/** The typed value, else the default. Unknown if the parameter has neither: a build cannot start without a value. */
export function parameterValue(instance: BlockInstance, inputs: Readonly<Record<string, string>>): Value {
  const name = knownOr(read(instance.body, 'name'));
  if (name === undefined || name === null || name instanceof Unknown) return UNKNOWN;
  const text = toText(name, 'name of a parameter');
  if (Object.hasOwn(inputs, text)) return inputs[text]!;
  const fallback = knownOr(read(instance.body, 'default'));
  if (fallback === undefined || fallback === null) return UNKNOWN;
  return primitiveText(fallback) ?? fallback;
}

function ownerValue(owner: PreviewOwner): Dict {
  const roles = owner.rbac_roles.map((role) =>
    object([
      ['name', role.name],
      ['org_id', role.org_id],
    ]),
  );
  return object([
    ...OWNER_SECRETS.map((name) => [name, UNKNOWN] as const),
    ['id', owner.id],
    ['name', owner.name],
    // the provider uses this for a user without a full name
    ['full_name', owner.full_name || 'default'],
    ['email', owner.email],
    ['login_type', owner.login_type],
    ['ssh_public_key', owner.ssh_public_key],
    ['groups', list(owner.groups)],
    ['rbac_roles', list(roles)],
  ]);
}

function workspaceValue({ accessUrl, workspace }: Pick<Chosen, 'accessUrl' | 'workspace'>): Dict {
  const url = accessUrl === undefined ? undefined : new URL(accessUrl);
  const port = url && Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  const transition = workspace?.transition ?? 'start';
  const isPrebuild = workspace?.prebuilt === 'create';
  return object([
    ...WORKSPACE_LATER.map((name) => [name, UNKNOWN] as const),
    ['id', workspace?.id ?? UNKNOWN],
    ['name', workspace?.name ?? UNKNOWN],
    ['access_url', accessUrl ?? UNKNOWN],
    ['access_port', port ?? UNKNOWN],
    ['transition', transition],
    ['start_count', Number(transition === 'start')],
    ['is_prebuild', isPrebuild],
    ['is_prebuild_claim', workspace?.prebuilt === 'claim'],
    ['prebuild_count', Number(isPrebuild)],
  ]);
}
