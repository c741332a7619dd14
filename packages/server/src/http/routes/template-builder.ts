import {
  acceptSession,
  composeArchive,
  createComposed,
  listBases,
  listModules,
} from '../../app/template-builder/builder.ts';
import { defineHandlers } from '../exchange.ts';

export const templateBuilderHandlers = defineHandlers({
  'GET /templatebuilder/bases': (ctx) => listBases(ctx),
  'GET /templatebuilder/modules': (ctx, { query }) => listModules(ctx, query.base),
  'POST /templatebuilder/compose': async (ctx, { body, http }) => {
    const archive = await composeArchive(ctx, body);
    http.reply.type('application/x-tar');
    return archive;
  },
  'POST /templatebuilder/compose/template': async (ctx, { body, http }) => {
    const template = await createComposed(ctx, body);
    http.reply.code(201);
    return { template };
  },
  'POST /templatebuilder/sessions': (ctx) => acceptSession(ctx),
});
