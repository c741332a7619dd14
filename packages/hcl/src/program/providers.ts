import type { Expr } from '../ast.ts';
import { sourceNames } from '../module.ts';
import { traversals } from '../references.ts';
import { EvaluationError } from '../values.ts';
import { blocksOf, type ConfigBlock, type Configuration, isJson, type Template } from './configuration.ts';
import { checkKnown, decide, type Undecided } from './undecided.ts';

const REGISTRY = 'registry.terraform.io';
/** The provider that is part of Terraform, with `terraform_data`. */
export const BUILT_IN_PROVIDER = 'terraform.io/builtin/terraform';

/**
 * The addresses of all providers that a template without modules needs, as Terraform writes them
 * (`registry.terraform.io/coder/coder`). Undecided if the template has a module, a backend, or anything else that could need
 * another provider or a setting of `terraform init`. Never throws because of a template's content.
 */
export function providersWithoutModules(template: Template): ReadonlySet<string> | Undecided {
  return decide(() => {
    const configuration = template.folder('.');
    if (!configuration) throw new EvaluationError('The template has no Terraform files.');
    checkKnown(configuration);
    // Terraform reads every value of a repeated key. JSON.parse keeps only the last one
    const json = sourceNames(template.files.paths()).find(isJson);
    if (json !== undefined) throw new EvaluationError(`${json}: only Terraform knows all blocks of a JSON file.`);
    if (configuration.modules.size > 0) throw new EvaluationError('The template has modules.');
    for (const block of configuration.others) checkSettings(block);
    const configured = configuration.others
      .filter(({ type }) => type === 'provider')
      .map(({ labels }) => labels[0] ?? '');
    const used = blocksOf(configuration).map((block) => {
      const { name } = providerOf(block);
      if (name === '') throw new EvaluationError(`${block.file}:${block.line}: the provider is not a reference.`);
      return name;
    });
    const names = [...requiredEntries(configuration).keys(), ...configured, ...used];
    return new Set(names.map((name) => providerAddress(configuration, name)));
  });
}

/** The address of a module's provider with this name. */
export function providerAddress(configuration: Configuration, name: string): string {
  const entry = requiredEntries(configuration).get(name);
  if (!entry && name === 'terraform') return BUILT_IN_PROVIDER;
  const source = entry?.kind === 'object' ? entry.items.find(({ key }) => keyText(key) === 'source')?.value : undefined;
  const given = source?.kind === 'literal' && typeof source.value === 'string' ? source.value : `hashicorp/${name}`;
  const address = given.split('/').length === 3 ? given : `${REGISTRY}/${given}`;
  return address.toLowerCase();
}

/** The provider that a resource or data source names, or that its type implies. The name is empty if it is not a reference. */
export function providerOf({ labels, body }: ConfigBlock): { name: string; alias?: string | undefined } {
  const given = body.attributes.get('provider')?.value;
  if (!given) return { name: labels[0]!.split('_')[0]! };
  const [name, alias] = traversals(given)[0]?.address.split('.') ?? [];
  return name === undefined ? { name: rootName(given) } : { name, alias };
}

/** The entries of `required_providers` by name. */
function requiredEntries({ others }: Configuration): Map<string, Expr> {
  const blocks = others
    .flatMap(({ type, body }) => (type === 'terraform' ? body.blocks : []))
    .filter(({ type }) => type === 'required_providers');
  return new Map(blocks.flatMap(({ body }) => [...body.attributes].map(([name, { value }]) => [name, value] as const)));
}

/** @throws EvaluationError if a block may have an effect on `terraform init` beyond its providers */
function checkSettings({ type, body, file, line }: ConfigBlock): void {
  const fail = (what: string) => {
    throw new EvaluationError(`${file}:${line}: only Terraform knows ${what}.`);
  };
  if (type === 'check') fail('the data sources of a check');
  if (type !== 'terraform') return;
  for (const name of body.attributes.keys()) if (name !== 'required_version') fail(`the setting ${name}`);
  for (const { type } of body.blocks) if (type !== 'required_providers') fail(`the setting ${type}`);
}

/** The name of a variable without attributes. Empty for another expression. */
const rootName = (expr: Expr): string => (expr.kind === 'variable' ? expr.name : '');

const keyText = (key: Expr): string => (key.kind === 'literal' ? String(key.value) : rootName(key));
