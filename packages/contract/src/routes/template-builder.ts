import { Type } from 'typebox';
import {
  TemplateBuilderBasesResponse,
  TemplateBuilderComposeRequest,
  TemplateBuilderCreateTemplateRequest,
  TemplateBuilderCreateTemplateResponse,
  TemplateBuilderModulesResponse,
  TemplateBuilderSessionRequest,
} from '../schema/template-builder.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

export const templateBuilderRoutes = {
  'GET /templatebuilder/bases': route({
    tag: 'TemplateBuilder',
    auth: 'session',
    responses: { 200: TemplateBuilderBasesResponse },
  }),
  'GET /templatebuilder/modules': route({
    tag: 'TemplateBuilder',
    auth: 'session',
    query: Type.Object({ base: Type.Optional(Type.String()) }),
    responses: { 200: TemplateBuilderModulesResponse },
  }),
  'POST /templatebuilder/compose': route({
    stream: 'bytes',
    tag: 'TemplateBuilder',
    auth: 'session',
    summary: 'Composes a template and returns it as a tar. Stores nothing.',
    body: TemplateBuilderComposeRequest,
    unknownKeys: unknownKeys('content'),
    responses: { 200: Nothing },
  }),
  'POST /templatebuilder/compose/template': route({
    tag: 'TemplateBuilder',
    auth: 'session',
    summary: 'Composes a template, waits for its import and creates it.',
    body: TemplateBuilderCreateTemplateRequest,
    unknownKeys: unknownKeys('limit'),
    responses: { 201: TemplateBuilderCreateTemplateResponse },
  }),
  'POST /templatebuilder/sessions': route({
    tag: 'TemplateBuilder',
    auth: 'session',
    summary: "Accepts upstream's report about the use of the builder. This server stores nothing of it.",
    body: TemplateBuilderSessionRequest,
    unknownKeys: unknownKeys('report'),
    responses: { 204: Nothing },
  }),
} as const;
