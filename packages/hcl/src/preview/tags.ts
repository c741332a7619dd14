import { type Expr, rawText } from '../ast.ts';
import { exhausted, newWork, type Work } from '../evaluate.ts';
import { force } from '../lazy.ts';
import { MAX_WORKSPACE_TAGS } from '../module.ts';
import type { ConfigBlock, Template } from '../program/configuration.ts';
import type { BlockInstance, BodyInstance, ModuleInstance } from '../program/instances.ts';
import { Program } from '../program/program.ts';
import { Dict, EvaluationError, primitiveText, Unknown, type Value } from '../values.ts';
import { isSensitive, unknownBehind, type Written, writtenIn } from './behind.ts';
import { read } from './read.ts';
import { type Chosen, type PlannedValues, surroundings } from './surroundings.ts';
import { error, type Notice } from './types.ts';

/** Why a template's tags cannot choose the daemon of a build. */
export interface TagProblem {
  /** The tag, or the expression of all tags, as its author wrote it. Empty if the problem has no such place. */
  label: string;
  why: string;
}

export interface WorkspaceTags {
  /** The tags that are known. */
  tags: Record<string, string>;
  /** Empty if a build may use the tags. */
  problems: TagProblem[];
}

/** A problem whose texts are made only for those who read them. */
interface Found {
  /** The address of the block. */
  address: string;
  label: () => string;
  why: () => string;
  /** Whether only Terraform can decide the tag. Forms are filled in before that is a problem. */
  later: boolean;
}

interface FoundTags {
  tags: ReadonlyMap<string, string>;
  /** The names of tags that are unknown or not text. */
  unknownTags: string[];
  problems: Found[];
}

/** The limit of problems that one answer describes. */
const MAX_PROBLEMS = 10;
const MAX_SHOWN = 200;
const HIDDEN = 'It failed. The reason is hidden because it depends on sensitive variables.';

/** Evaluates the tags of a template for a build, without Terraform. Never throws because of a template's content. */
export function workspaceTags(
  template: Template,
  planned: PlannedValues,
  chosen: Chosen,
  work: Work = newWork(),
): WorkspaceTags {
  try {
    const program = new Program(template, surroundings(template, planned, chosen, work), work);
    const { tags, problems } = findTags(program);
    const unread = [...new Set(program.modules().map(({ configuration }) => configuration))]
      .flatMap(({ diagnostics }) => diagnostics)
      .map(({ file, line, message }) => ({ label: '', why: `${file}:${line}: ${message}` }));
    const shown = problems
      .slice(0, MAX_PROBLEMS - Math.min(unread.length, MAX_PROBLEMS))
      .map(({ label, why }) => ({ label: label(), why: why() }));
    return { tags: Object.fromEntries(tags), problems: [...unread.slice(0, MAX_PROBLEMS), ...shown] };
  } catch (err) {
    if (!(err instanceof EvaluationError)) throw err;
    return { tags: {}, problems: [{ label: '', why: err.message }] };
  }
}

/** The tags of `coder_workspace_tags` in all modules. Throws EvaluationError if the limits of work are used up. */
export function findTags(program: Program): FoundTags {
  const finder = new Finder();
  for (const module of program.modules())
    for (const block of module.configuration.data.get('coder_workspace_tags')?.values() ?? [])
      finder.block(module, block);
  return finder;
}

/** What the author of a template must correct, one for each block. */
export function tagNotices({ problems }: FoundTags): Notice[] {
  const wrong = Map.groupBy(
    problems.filter(({ later }) => !later),
    ({ address }) => address,
  );
  return [...wrong].map(([address, all]) => {
    const lines = all.slice(0, MAX_PROBLEMS).map(({ label, why }) => `${address}: ${label()}: ${why()}`);
    return error('The workspace tags cannot be evaluated', lines.join('\n'));
  });
}

class Finder implements FoundTags {
  readonly tags = new Map<string, string>();
  readonly unknownTags: string[] = [];
  readonly problems: Found[] = [];
  #full = false;

  block(module: ModuleInstance, block: ConfigBlock): void {
    const address = module.inside(`data.${block.labels.join('.')}`);
    let instances: BlockInstance[];
    try {
      instances = module.instancesOf(block);
    } catch (err) {
      if (!(err instanceof EvaluationError) || exhausted(module.program.progress.work)) throw err;
      this.problems.push({ address, label: () => address, why: () => err.message, later: false });
      return;
    }
    try {
      for (const instance of instances) this.#instance(new TagsBlock(instance));
    } catch (err) {
      throw err instanceof EvaluationError ? new EvaluationError(`${address}: ${err.message}`) : err;
    }
  }

  #instance(block: TagsBlock): void {
    const { instance, whole, items } = block;
    if (whole === undefined) return;
    if (whole instanceof EvaluationError) {
      const failed = items.flatMap((item) => block.failure(item));
      this.problems.push(...(failed.length > 0 ? failed : [block.problem(undefined, () => whole.message)]));
    } else if (!instance.counted) {
      if (whole instanceof Dict) this.unknownTags.push(...whole.entries.keys());
      this.problems.push(block.unknownCount());
    } else if (whole instanceof Unknown) {
      const unknown = items.filter((item) => block.isUnknown(item.key));
      const from = unknown.length > 0 ? unknown : [undefined];
      this.problems.push(...from.map((item) => block.unknown(item)));
    } else if (!(whole instanceof Dict))
      this.problems.push(block.problem(undefined, () => 'It must be an object: { name = value }.'));
    else for (const [name, value] of whole.entries) this.#tag(block, name, value);
  }

  #tag(block: TagsBlock, name: string, value: Value): void {
    // Terraform leaves out tags that are null
    if (value === null) return;
    const item = block.itemOf(name);
    const wrong = (why: string) => this.problems.push(block.problem(item, () => why));
    // if the name is not in the text, the reason has it
    const its = (what: string) => (item ? `Its ${what}` : `Its ${what} of ${JSON.stringify(name)}`);
    const text = primitiveText(value);
    if (text === undefined) {
      this.unknownTags.push(name);
      if (value instanceof Unknown) this.problems.push(block.unknown(item, item ? 'It' : its('value')));
      else {
        const why = `${its('value')} must be a string, a number or a bool.`;
        this.problems.push({ ...block.problem(item, () => why), later: true });
      }
    } else if (name === '') wrong('A tag needs a name.');
    // the database can store neither
    else if (!isStorable(name)) wrong('Its name contains NUL or invalid Unicode.');
    else if (!isStorable(text)) wrong(`${its('value')} contains NUL or invalid Unicode.`);
    else {
      const before = this.tags.get(name);
      if (before !== undefined && before !== text)
        wrong(`Tag ${JSON.stringify(name)} is set twice, to different values.`);
      if (before !== undefined || this.tags.size < MAX_WORKSPACE_TAGS) this.tags.set(name, text);
      else if (!this.#full) {
        this.#full = true;
        wrong(`The template sets more than ${MAX_WORKSPACE_TAGS} tags.`);
      }
    }
  }
}

const isStorable = (text: string) => !text.includes('\0') && text.isWellFormed();

interface Item {
  key: Expr;
  value: Expr;
}

/** One instance of a block, with the texts that describe its problems. */
class TagsBlock {
  readonly instance: BlockInstance;
  readonly whole: Value | undefined | EvaluationError;
  /** The tags that the block writes one by one. */
  readonly items: readonly Item[];
  readonly #body: BodyInstance;
  readonly #expr: Expr | undefined;
  #byName: Map<string, Item> | undefined;

  constructor(instance: BlockInstance) {
    this.instance = instance;
    this.#body = instance.body;
    this.whole = read(this.#body, 'tags');
    let expr = this.#body.written('tags')?.value;
    this.#expr = expr;
    while (expr?.kind === 'parens') expr = expr.inner;
    this.items = expr?.kind === 'object' ? expr.items : [];
  }

  problem(item: Item | undefined, why: () => string): Found {
    return {
      address: this.instance.address,
      label: () => this.#label(item),
      why: () => (isSensitive([...this.#behind(item), ...this.#counts()]) ? HIDDEN : why()),
      later: false,
    };
  }

  unknown(item: Item | undefined, what = 'It'): Found {
    const why = () => `${what} depends on ${causes(this.#behind(item))}, which is not known before Terraform runs.`;
    return { ...this.problem(item, why), later: true };
  }

  unknownCount(): Found {
    const why = () =>
      `How often the block exists depends on ${causes(this.#counts())}, which is not known before Terraform runs.`;
    return { ...this.problem(undefined, why), later: true };
  }

  /** Why an item has no value. Empty if it has one. */
  failure(item: Item): Found[] {
    for (const expr of [item.key, item.value]) {
      const value = this.#try(expr);
      if (value instanceof EvaluationError) return [this.problem(item, () => value.message)];
    }
    return [];
  }

  isUnknown(expr: Expr): boolean {
    return this.#try(expr) instanceof Unknown;
  }

  itemOf(name: string): Item | undefined {
    if (!this.#byName) {
      this.#byName = new Map();
      for (const item of this.items) {
        const key = this.#try(item.key);
        const text = key instanceof EvaluationError ? undefined : primitiveText(key);
        if (text !== undefined) this.#byName.set(text, item);
      }
    }
    return this.#byName.get(name);
  }

  #try(expr: Expr): Value | EvaluationError {
    try {
      return force(this.#body.evaluate(expr));
    } catch (err) {
      if (!(err instanceof EvaluationError) || exhausted(this.#body.module.program.progress.work)) throw err;
      return err;
    }
  }

  #behind(item: Item | undefined): Written[] {
    const exprs = item ? [item.key, item.value] : this.#expr ? [this.#expr] : [];
    return exprs.map((expr) => writtenIn(this.#body, expr));
  }

  /** The expressions that decide how often the block and its modules exist. */
  #counts(): Written[] {
    const found: Written[] = [];
    for (let body: BodyInstance | undefined = this.#body; body; body = body.module.call)
      for (const name of ['count', 'for_each']) {
        const attribute = body.written(name);
        if (attribute) found.push(writtenIn(body, attribute.value));
      }
    return found;
  }

  #label(item: Item | undefined): string {
    const { block, address } = this.instance;
    const file = block.overrides?.get('tags') ?? block.file;
    if (file.endsWith('.json') || !this.#expr) return this.#labelOfJson(item, address);
    const source = this.#body.module.program.template.text(file) ?? '';
    const text = (expr: Expr) => rawText({ source }, expr);
    const value = text(item?.value ?? this.#expr);
    const shown = value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value;
    const key = item ? `Tag ${JSON.stringify(text(item.key).replace(/^"(.*)"$/s, '$1'))}` : 'tags';
    const where = this.#body.module.address === '' ? '' : ` in ${this.#body.module.address}`;
    return `${key} = ${shown}${where}`;
  }

  /** JSON files keep no positions of their expressions. */
  #labelOfJson(item: Item | undefined, address: string): string {
    const key = item && this.#try(item.key);
    const name = key === undefined || key instanceof EvaluationError ? undefined : primitiveText(key);
    return name === undefined ? `tags of ${address}` : `Tag ${JSON.stringify(name)} of ${address}`;
  }
}

const causes = (exprs: readonly Written[]): string => unknownBehind(exprs).join(', ') || 'something';
