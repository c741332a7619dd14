import { notEmpty, oneOf, someOf } from '../../checks.ts';
import { stableId } from '../../environment.ts';
import { idAttribute, optional, required } from '../../schema.ts';
import type { DataSource } from '../../types.ts';
import { canonical } from '../../value.ts';

const selectors = (description: string) => required(['list', 'string'], description, { check: someOf(notEmpty) });

export const dataSource: DataSource = {
  schema: {
    version: 0,
    description: 'The order of scripts of one agent.',
    attributes: { id: idAttribute },
    blocks: {
      rule: {
        nesting: 'list',
        minItems: 1,
        block: {
          attributes: {
            run: selectors('Addresses of the scripts that wait: coder_script.name or module.name.'),
            after: selectors('Addresses of the scripts that they wait for.'),
            requires: optional('string', 'Whether the others must succeed (success) or only end (completion).', {
              default: 'success',
              check: oneOf('success', 'completion'),
            }),
            phase: optional('string', 'Whether the rule orders scripts at the start or at the stop.', {
              check: oneOf('start', 'stop'),
            }),
          },
        },
      },
    },
  },
  read(config) {
    return { ...config, id: stableId('script-order', canonical(config['rule'] ?? null)) };
  },
};
