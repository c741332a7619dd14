import { blocks, isUnknown, type Obj, str } from '../../value.ts';

/** The form types of each type, with and without options. The first is the default. */
const ALLOWED: Record<string, { options: string[]; free: string[] }> = {
  string: { options: ['radio', 'dropdown'], free: ['input', 'textarea'] },
  number: { options: ['radio', 'dropdown'], free: ['input', 'slider'] },
  bool: { options: ['radio', 'dropdown'], free: ['checkbox', 'switch'] },
  'list(string)': { options: ['radio', 'multi-select'], free: ['tag-select'] },
};

export const FORM_TYPES = [...new Set(Object.values(ALLOWED).flatMap((a) => [...a.options, ...a.free]))].sort();

function allowed(config: Obj): string[] | undefined {
  const kind = ALLOWED[str(config, 'type')];
  if (!kind || isUnknown(config['option'])) return undefined;
  return blocks(config, 'option').length > 0 ? kind.options : kind.free;
}

/** Returns the parameter's form type. Undefined if its type is invalid. */
export function formTypeOf(config: Obj): string | undefined {
  return str(config, 'form_type') || allowed(config)?.[0];
}

/** Returns why the form type does not fit the type. */
export function formTypeError(config: Obj): string | undefined {
  const chosen = str(config, 'form_type');
  const choices = allowed(config);
  if (chosen === '' || choices === undefined || choices.includes(chosen)) return undefined;
  const how = blocks(config, 'option').length > 0 ? 'with' : 'without';
  return `a ${str(config, 'type')} ${how} options can be shown as ${choices.join(' or ')}, not as ${chosen}`;
}
