import { formTypeProblem, formTypesFor } from '@ropewalk/rules/parameter';
import { blocks, isUnknown, type Obj, str } from '../../value.ts';

/** Returns the parameter's form type. Undefined if its type is invalid or the number of its options is unknown. */
export function formTypeOf(config: Obj): string | undefined {
  const chosen = str(config, 'form_type');
  if (chosen || isUnknown(config['option'])) return chosen || undefined;
  return formTypesFor(str(config, 'type'), blocks(config, 'option').length > 0)?.[0];
}

/** Returns why the form type does not fit the type. */
export function formTypeError(config: Obj): string | undefined {
  if (isUnknown(config['option'])) return undefined;
  return formTypeProblem(str(config, 'type'), str(config, 'form_type'), blocks(config, 'option').length > 0);
}
