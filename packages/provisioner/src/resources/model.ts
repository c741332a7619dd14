import { AppError, errorText } from '@ropewalk/kit';

/** One instance of a resource or data source, from a plan or a state. */
export interface Instance {
  mode: 'managed' | 'data';
  type: string;
  name: string;
  /** The full address, which is unique. */
  address: string;
  /** The address without instance keys, which is the label of its node in the dependency graph. */
  label: string;
  /** The address of the module with instance keys. Empty for the root module. */
  module: string;
  /** The known values by attribute. Unknown values are absent. */
  values: Values;
}

export type Values = Record<string, unknown>;

/** The parts of a plan or a state that the daemon uses. */
export interface Snapshot {
  /** In order of discovery: the instances of child modules before those of their parent. */
  instances: Instance[];
}

/** An address without its instance keys: `module.a["x.y"].b.c[0]` → `module.a.b.c`. */
export function labelOf(address: string): string {
  let out = '';
  let at = 0;
  while (at < address.length) {
    const char = address[at]!;
    if (char !== '[') {
      out += char;
      at++;
      continue;
    }
    at++;
    if (address[at] === '"') {
      at++;
      while (at < address.length && address[at] !== '"') at += address[at] === '\\' ? 2 : 1;
      at++;
    }
    while (at < address.length && address[at] !== ']') at++;
    at++;
  }
  return out;
}

interface StateFile {
  version?: number;
  serial?: number;
  lineage?: string;
  resources?: {
    module?: string;
    mode: 'managed' | 'data';
    type: string;
    name: string;
    provider?: string;
    instances?: { index_key?: string | number; attributes?: Values; deposed?: string }[];
  }[];
}

export interface StateHeader {
  serial: bigint;
  lineage: string;
  /** The number of managed resources. */
  managed: number;
}

function parseState(bytes: Uint8Array): StateFile {
  let state: StateFile;
  try {
    state = JSON.parse(Buffer.from(bytes).toString('utf8')) as StateFile;
  } catch (err) {
    throw new AppError('invalid', `The state is not JSON: ${errorText(err)}`, { cause: err });
  }
  if (state?.version !== 4) throw new AppError('invalid', `The state's version is ${state?.version}, not 4.`);
  return state;
}

/** Reads serial, lineage and size of a state file. @throws AppError `invalid`, also for a half-written file. */
export function stateHeader(bytes: Uint8Array): StateHeader {
  const state = parseState(bytes);
  const { serial, lineage } = state;
  if (!Number.isSafeInteger(serial) || serial! < 0 || typeof lineage !== 'string' || lineage === '')
    throw new AppError('invalid', 'The state has no serial or no lineage.');
  const managed = (state.resources ?? []).filter(({ mode, instances }) => mode === 'managed' && instances?.length);
  return { serial: BigInt(serial!), lineage, managed: managed.length };
}

/**
 * The addresses of the providers of a state's resources: `registry.terraform.io/hashicorp/null`. Empty for a state that
 * cannot be read, which Terraform reports.
 */
export function stateProviders(bytes: Uint8Array): Set<string> {
  let resources: StateFile['resources'];
  try {
    ({ resources } = parseState(bytes));
  } catch {
    return new Set();
  }
  const found = (resources ?? []).map(({ provider = '' }) => /provider\["([^"]+)"\]/.exec(provider)?.[1]);
  return new Set(found.filter((address) => address !== undefined));
}

/** Reads a state file of version 4. Empty bytes are an empty state. @throws AppError `invalid`. */
export function readState(bytes: Uint8Array): Snapshot {
  if (bytes.length === 0) return { instances: [] };
  const instances: Instance[] = [];
  for (const resource of parseState(bytes).resources ?? []) {
    const module = resource.module ?? '';
    const own = `${resource.mode === 'data' ? 'data.' : ''}${resource.type}.${resource.name}`;
    const label = module === '' ? own : `${labelOf(module)}.${own}`;
    for (const { index_key: key, attributes, deposed } of resource.instances ?? []) {
      if (deposed) continue; // a leftover that terraform will destroy, not the resource
      const { mode, type, name } = resource;
      const address = `${module === '' ? '' : `${module}.`}${own}${key === undefined ? '' : `[${JSON.stringify(key)}]`}`;
      instances.push({ mode, type, name, address, label, module, values: attributes ?? {} });
    }
  }
  return { instances: depthFirst(instances) };
}

function depthFirst(instances: Instance[]): Instance[] {
  const depth = ({ module }: Instance) => (module === '' ? 0 : module.split('module.').length);
  return instances
    .map((instance, at) => ({ instance, at }))
    .sort((a, b) => depth(b.instance) - depth(a.instance) || a.at - b.at)
    .map(({ instance }) => instance);
}

interface PlanModule {
  address?: string;
  resources?: { address: string; mode: 'managed' | 'data'; type: string; name: string; values?: Values }[];
  child_modules?: PlanModule[];
}

/** The parts of `terraform show -json <plan>` that the daemon uses. */
export interface PlanFile {
  planned_values?: { root_module?: PlanModule };
  prior_state?: { values?: { root_module?: PlanModule } };
  resource_changes?: {
    address: string;
    type: string;
    change?: { actions?: string[]; replace_paths?: (string | number)[][] };
  }[];
}

/** Reads a plan: first the data sources that it read, then its planned values. */
export function readPlan(plan: PlanFile): Snapshot {
  const instances: Instance[] = [];
  const walk = (module: PlanModule | undefined, only: 'data' | undefined) => {
    if (!module) return;
    for (const child of module.child_modules ?? []) walk(child, only);
    for (const { address, mode, type, name, values } of module.resources ?? []) {
      if (only && mode !== only) continue;
      const where = { address, label: labelOf(address), module: module.address ?? '' };
      instances.push({ mode, type, name, ...where, values: values ?? {} });
    }
  };
  walk(plan.prior_state?.values?.root_module, 'data');
  walk(plan.planned_values?.root_module, undefined);
  return { instances };
}

/** The text of a value. Empty if it is unknown, null or of another type. */
export function str(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The whole number of a value. 0 if it is unknown or of another type. */
export function int(value: unknown): number {
  const number = typeof value === 'string' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? Math.trunc(number) : 0;
}

export function bool(value: unknown): boolean {
  return value === true || value === 'true';
}

/** The blocks of a list or set. */
export function blocks(value: unknown): Values[] {
  return Array.isArray(value)
    ? value.filter((entry): entry is Values => typeof entry === 'object' && entry !== null)
    : [];
}

/** A map of texts, without entries of other types. */
export function strings(value: unknown): Record<string, string> {
  const out: Record<string, string> = {};
  if (typeof value === 'object' && value !== null)
    for (const [key, entry] of Object.entries(value)) if (typeof entry === 'string') out[key] = entry;
  return out;
}

/** The whole numbers that the messages to the server and its database hold. */
const LEAST = -2_147_483_648;
const MOST = 2_147_483_647;

/**
 * Checks every number of the platform's own resources and data sources.
 * @throws AppError `invalid` that names the resource, the attribute, the value and the range
 */
export function checkNumbers(instances: readonly Instance[]): void {
  for (const { type, address, values } of instances) {
    if (type.startsWith('coder_')) checkNumber(address, '', values);
  }
}

function checkNumber(address: string, attribute: string, value: unknown): void {
  if (typeof value === 'number') {
    if (value >= LEAST && value <= MOST) return;
    const text = `${address}: ${attribute} is ${value}. Use a whole number from ${LEAST} to ${MOST}.`;
    throw new AppError('invalid', text);
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    const name = Array.isArray(value) ? `${attribute}[${key}]` : attribute === '' ? key : `${attribute}.${key}`;
    checkNumber(address, name, inner);
  }
}
