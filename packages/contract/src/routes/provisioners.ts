import { Type } from 'typebox';
import { ProvisionerDaemon, ProvisionerJob } from '../schema/provisioners.ts';
import { Nothing, route } from './kit.ts';

export const provisionersRoutes = {
  'GET /organizations/{organization}/provisionerdaemons': route({
    tag: 'Provisioning',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    query: Type.Object({
      limit: Type.Optional(Type.Integer()),
      ids: Type.Optional(Type.String()),
      status: Type.Optional(Type.String()),
      tags: Type.Optional(Type.String()),
    }),
    responses: { 200: Type.Array(ProvisionerDaemon) },
  }),
  'GET /organizations/{organization}/provisionerdaemons/serve': route({
    tag: 'Provisioners',
    auth: 'daemon',
    params: Type.Object({ organization: Type.String() }),
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  'GET /organizations/{organization}/provisionerjobs': route({
    tag: 'Organizations',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    query: Type.Object({
      limit: Type.Optional(Type.Integer()),
      ids: Type.Optional(Type.String()),
      status: Type.Optional(Type.String()),
      tags: Type.Optional(Type.String()),
    }),
    responses: { 200: Type.Array(ProvisionerJob) },
  }),
  'GET /organizations/{organization}/provisionerjobs/{job}': route({
    tag: 'Organizations',
    auth: 'session',
    params: Type.Object({ organization: Type.String(), job: Type.String() }),
    responses: { 200: ProvisionerJob },
  }),
} as const;
