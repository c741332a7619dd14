import { address, whole } from '../../checks.ts';
import { computed, idAttribute, optional, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';
import { blocks, isUnknown, type Obj } from '../../value.ts';

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: 'Facts about a resource, shown to people in the dashboard.',
    attributes: {
      id: idAttribute,
      resource_id: required('string', 'The id of the resource that the facts are about.'),
      hide: optional('bool', 'Keep the resource out of sight.'),
      icon: optional('string', 'URL of an icon.', { check: address }),
      daily_cost: optional('number', 'What the resource costs a day, in the units of quota.', { check: whole() }),
    },
    blocks: {
      item: {
        nesting: 'list',
        block: {
          attributes: {
            key: required('string', 'Name of the fact.'),
            value: optional('string', 'The fact. Null says that there is none.'),
            sensitive: optional('bool', 'Show the value only on demand.', { default: false }),
            is_null: computed('bool', 'Whether value was null.'),
          },
        },
      },
    },
  },
  validate(config, { diagnostics }) {
    const seen = new Set<string>();
    for (const [i, item] of blocks(config, 'item').entries()) {
      const key = item['key'];
      if (typeof key !== 'string') continue;
      if (seen.has(key))
        diagnostics.error(['item', i, 'key'], 'Duplicate key', `Key ${JSON.stringify(key)} comes twice.`);
      seen.add(key);
    }
  },
  plan: markNulls,
  create: (state, _ctx, config) => markNulls(state, config),
};

/** An absent value reads as empty text in the state; `is_null` tells it from one that was given. */
function markNulls(state: Obj, config: Obj): void {
  const written = blocks(config, 'item');
  for (const [i, item] of blocks(state, 'item').entries()) {
    const value = written[i]?.['value'];
    if (!isUnknown(value)) item['is_null'] = (value ?? null) === null;
  }
}
