import type { TemplateBuilderComposeRequest } from '@ropewalk/contract';
import { queryOptions } from '@tanstack/react-query';
import { client } from '../../../api/client.ts';
import { apiQuery } from '../../../api/query.ts';
import { readTar } from '../files/tar.ts';

export const basesQuery = apiQuery('GET /templatebuilder/bases', []);

export const modulesQuery = (base: string) => apiQuery('GET /templatebuilder/modules', [], { query: { base } });

/** The composed source, as an archive and as its files. */
export const composedQuery = (request: TemplateBuilderComposeRequest) =>
  queryOptions({
    queryKey: ['composed template', request],
    queryFn: async () => {
      const archive = await client.bytes('/templatebuilder/compose', request);
      return { archive, files: readTar(archive) };
    },
    retry: false,
  });
