/** A range of source: offsets in UTF-16 units, `end` exclusive. `line` counts from 1. */
export interface Range {
  start: number;
  end: number;
  line: number;
}

interface NodeBase {
  range: Range;
  /** The number of expression levels from this one down. The parser limits it, so that recursion over it is safe. */
  depth: number;
}

export type BinaryOp = '||' | '&&' | '==' | '!=' | '<' | '<=' | '>' | '>=' | '+' | '-' | '*' | '/' | '%';

export type TemplatePart =
  | { kind: 'text'; text: string }
  | { kind: 'interpolation'; value: Expr }
  | { kind: 'if'; condition: Expr; whenTrue: TemplatePart[]; whenFalse: TemplatePart[] }
  | { kind: 'for'; keyName: string | undefined; valueName: string; collection: Expr; body: TemplatePart[] };

export type Expr = NodeBase &
  (
    | { kind: 'literal'; value: string | number | boolean | null }
    /** A template of exactly one interpolation: the value itself, not its text. */
    | { kind: 'wrap'; value: Expr }
    | { kind: 'template'; parts: TemplatePart[] }
    | { kind: 'tuple'; items: Expr[] }
    | { kind: 'object'; items: { key: Expr; value: Expr }[] }
    | {
        kind: 'for';
        keyName: string | undefined;
        valueName: string;
        collection: Expr;
        /** Present in an object for-expression. */
        key: Expr | undefined;
        value: Expr;
        group: boolean;
        condition: Expr | undefined;
      }
    | { kind: 'conditional'; condition: Expr; whenTrue: Expr; whenFalse: Expr }
    | { kind: 'binary'; op: BinaryOp; left: Expr; right: Expr }
    | { kind: 'unary'; op: '-' | '!'; operand: Expr }
    | { kind: 'call'; name: string; args: Expr[]; expand: boolean }
    | { kind: 'parens'; inner: Expr }
    | { kind: 'variable'; name: string }
    | { kind: 'attribute'; on: Expr; name: string }
    | { kind: 'index'; on: Expr; key: Expr }
    /** `each` is evaluated once per element. `item` nodes refer to that element. */
    | { kind: 'splat'; on: Expr; each: Expr }
    | { kind: 'item' }
  );

export interface Attribute {
  name: string;
  value: Expr;
  range: Range;
}

export interface Block {
  type: string;
  labels: string[];
  body: Body;
  range: Range;
}

export interface Body {
  attributes: Map<string, Attribute>;
  blocks: Block[];
}

export interface Diagnostic {
  severity: 'error';
  message: string;
  file: string;
  line: number;
}

export interface ParsedFile {
  filename: string;
  source: string;
  body: Body;
  diagnostics: Diagnostic[];
}

/** The source text of a node. */
export const rawText = (file: { source: string }, node: { range: Range }): string =>
  file.source.slice(node.range.start, node.range.end);
