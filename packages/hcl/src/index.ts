export type { Attribute, Block, Body, Diagnostic, Expr, ParsedFile, Range, TemplatePart } from './ast.ts';
export { rawText } from './ast.ts';
export { evaluate, type Scope } from './evaluate.ts';
export { type LoadedModule, loadModule, type ModuleVariable } from './module.ts';
export { parseExpression, parseHcl } from './parser.ts';
export { bodyReferences, references } from './references.ts';
export {
  Dict,
  EvaluationError,
  fromJson,
  jsonText,
  list,
  map,
  object,
  Seq,
  set,
  toJson,
  tuple,
  UNKNOWN,
  Unknown,
  type Value,
} from './values.ts';
