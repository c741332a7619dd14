import { address, whole } from '../../checks.ts';
import { computed, idAttribute, optional, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';
import { blocks, isUnknown, type Obj } from '../../value.ts';

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: 'Facts about a resource for the dashboard.',
    attributes: {
      id: idAttribute,
      resource_id: required('string', 'The id of the resource.'),
      hide: optional('bool', 'Whether to hide the resource.'),
      icon: optional('string', 'URL of an icon.', { check: address }),
      daily_cost: optional('number', 'Daily cost of the resource, in quota units.', { check: whole() }),
    },
    blocks: {
      item: {
        nesting: 'list',
        block: {
          attributes: {
            key: required('string', 'Name of the fact.'),
            value: optional('string', 'Value of the fact. Null for none.'),
            sensitive: optional('bool', 'Whether to show the value only on request.', { default: false }),
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
        diagnostics.error(['item', i, 'key'], 'Duplicate key', `Key ${JSON.stringify(key)} is used twice.`);
      seen.add(key);
    }
  },
  plan: markNulls,
  create: (state, _ctx, config) => markNulls(state, config),
};

/** Sets `is_null`, which distinguishes an absent value from an empty one: both are empty texts in the state. */
function markNulls(state: Obj, config: Obj): void {
  const written = blocks(config, 'item');
  for (const [i, item] of blocks(state, 'item').entries()) {
    const value = written[i]?.['value'];
    if (!isUnknown(value)) item['is_null'] = (value ?? null) === null;
  }
}
