import { stableId } from '../../environment.ts';
import { idAttribute, optional } from '../../schema.ts';
import type { DataSource } from '../../types.ts';
import { canonical } from '../../value.ts';

export const dataSource: DataSource = {
  schema: {
    version: 1,
    description: 'Tags of the provisioner daemons that may build workspaces of this template.',
    attributes: { id: idAttribute, tags: optional(['map', 'string'], 'Tags by name.') },
  },
  read: (config) => ({ ...config, id: stableId('tags', canonical(config['tags'] ?? null)) }),
};
