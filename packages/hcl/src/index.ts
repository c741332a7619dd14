export type { Attribute, Block, Body, Diagnostic, ParsedFile, Range, TemplatePart } from './ast.ts';
export { rawText } from './ast.ts';
export { convert } from './constraint.ts';
export { evaluate, exhausted, newWork, type Scope, type Work } from './evaluate.ts';
export type { Files } from './functions/types.ts';
export { dependencyGraph } from './graph/dependency-graph.ts';
export { type LoadedModule, loadModule, type ModuleVariable } from './module.ts';
export { parseExpression, parseHcl, parseTemplate } from './parser.ts';
export { valueProblems } from './preview/parameters.ts';
export { previewTemplate } from './preview/preview.ts';
export { type Chosen, type ChosenWorkspace, type GivenVariable, PlannedValues } from './preview/surroundings.ts';
export { type TagProblem, type WorkspaceTags, workspaceTags } from './preview/tags.ts';
export type * from './preview/types.ts';
export { Template } from './program/configuration.ts';
export { BUILT_IN_PROVIDER, providersWithoutModules } from './program/providers.ts';
export { bodyReferences, references } from './references.ts';
export { MAX_PROVIDERS_BYTES, type ProviderConstraint, requiredProviders } from './required-providers.ts';
export { requiredVersions, type VersionRequirement, versionRequirements } from './required-version.ts';
export { type Persistence, persistence } from './transition/persistence.ts';
export {
  Dict,
  EvaluationError,
  fromJson,
  jsonText,
  list,
  map,
  object,
  set,
  toJson,
  tuple,
  UNKNOWN,
  Unknown,
  type Value,
} from './values.ts';
